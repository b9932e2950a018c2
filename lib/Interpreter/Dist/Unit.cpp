//===- Unit.cpp - Views and packs of groups, barriers ---------------------===//
#include "dialects/dist/Dist.h"
#include "dialects/mem/Mem.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"
#include <algorithm>

using namespace mlir;

namespace shale::interp {

namespace {

template <typename OpT> dist::GroupAttr groupOf(OpT op) {
  auto unit = SymbolTable::lookupNearestSymbolFrom<dist::UnitOp>(op, op.getUnitAttr());
  dist::GroupAttr group = unit ? unit.getGroup(op.getGroup()) : nullptr;
  if (!group)
    op.emitError("there is no such group");
  return group;
}

LogicalResult view(dist::UnitViewOp op, Call &call) {
  dist::GroupAttr group = groupOf(op);
  dist::SegmentAttr segment = group ? group.getSegment(op.getParam()) : nullptr;
  if (!segment)
    return failure();
  call.results[0] = call.operand(0)
                        .slice(0, segment.getOffset(), op.getType().getNumElements())
                        .reshaped(op.getType().getShape());
  return success();
}

LogicalResult pack(dist::UnitPackOp op, Call &call) {
  dist::GroupAttr group = groupOf(op);
  if (!group)
    return failure();
  Tensor &result = call.result();
  result.fill(0);
  for (auto [i, param] : llvm::enumerate(op.getParams())) {
    dist::SegmentAttr segment = group.getSegment(cast<FlatSymbolRefAttr>(param).getValue());
    const Cell *from = call.operand(i).cells();
    std::copy(from, from + cast<RankedTensorType>(op.getInputs()[i].getType()).getNumElements(),
              result.mutableCells() + segment.getOffset());
  }
  return success();
}

LogicalResult barrier(mem::BarrierOp op, Call &call) {
  call.results.assign(call.operands.begin(), call.operands.end());
  return success();
}

/// Returns the operand: the op only changes where a value is stored.
template <typename OpT> LogicalResult pass(OpT op, Call &call) {
  call.results[0] = call.operand(0);
  return success();
}

} // namespace

void registerUnits(Registry &registry) {
  registry.add<dist::UnitViewOp>(view);
  registry.add<dist::UnitPackOp>(pack);
  registry.add<mem::BarrierOp>(barrier);
  registry.add<mem::OffloadOp>(pass<mem::OffloadOp>);
  registry.add<mem::ReloadOp>(pass<mem::ReloadOp>);
  registry.add<mem::StartOp>(pass<mem::StartOp>);
  registry.add<mem::WaitOp>(pass<mem::WaitOp>);
  registry.add<dist::ConstrainOp>(pass<dist::ConstrainOp>);
}

} // namespace shale::interp
