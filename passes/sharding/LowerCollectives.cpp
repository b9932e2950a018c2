//===- LowerCollectives.cpp - Expresses collectives by those of the runtime ===//
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Reduce.h"
#include "dialects/nn/Sharding/Rules.h"
#include "lib/Support/OpCopies.h"
#include "passes/sharding/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_LOWERCOLLECTIVESPASS
#include "passes/sharding/Passes.h.inc"

namespace {

/// Builds what replaces the results of collectives.
struct Lowering {
  OpBuilder &builder;
  dist::MeshOp mesh;

  static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
  Value swapped(Location loc, Value value, int64_t dim) {
    return nn::swapWithFirst(builder, loc, value, dim);
  }
  RankedTensorType withFirst(Value value, int64_t times, int64_t by);

  Value lower(dist::AllReduceOp reduce);
  Value lower(dist::AllGatherOp gather);
  Value lower(dist::ReduceScatterOp scatter);
  Value lower(dist::SliceOp slice);
  Value lower(dist::AllToAllOp exchange);
};

} // namespace

RankedTensorType Lowering::withFirst(Value value, int64_t times, int64_t by) {
  SmallVector<int64_t> shape(typeOf(value).getShape());
  shape[0] = shape[0] * times / by;
  return typeOf(value).clone(shape);
}

/// A maximum over ranks is a gather of all ranks' operands and a local maximum.
Value Lowering::lower(dist::AllReduceOp reduce) {
  if (reduce.getReduction() != dist::Reduction::Max)
    return {};
  Location loc = reduce.getLoc();
  auto type = cast<RankedTensorType>(reduce.getType());
  Type element = type.getElementType();
  Value parts = nn::gatherPieces(builder, loc, {reduce.getAxis(), mesh.getSize(reduce.getAxis())},
                                 reduce.getInput());
  bool narrow = element.isBF16() || element.isF16();
  Value max = nn::ReduceOp::create(builder, loc, narrow ? type.clone(builder.getF32Type()) : type,
                                   nn::ReduceKind::Max, parts, builder.getDenseI64ArrayAttr({0}));
  return narrow ? nn::CastOp::create(builder, loc, type, max) : max;
}

Value Lowering::lower(dist::AllGatherOp gather) {
  if (gather.getDim() == 0)
    return {};
  Location loc = gather.getLoc();
  Value part = swapped(loc, gather.getInput(), gather.getDim());
  int64_t size = mesh.getSize(gather.getAxis());
  Value whole =
      dist::AllGatherOp::create(builder, loc, withFirst(part, size, 1), part, gather.getAxis(), 0);
  return swapped(loc, whole, gather.getDim());
}

Value Lowering::lower(dist::ReduceScatterOp scatter) {
  if (scatter.getDim() == 0 || scatter.getReduction() != dist::Reduction::Sum)
    return {};
  Location loc = scatter.getLoc();
  Value whole = swapped(loc, scatter.getInput(), scatter.getDim());
  int64_t size = mesh.getSize(scatter.getAxis());
  Value part = dist::ReduceScatterOp::create(builder, loc, withFirst(whole, 1, size),
                                             scatter.getReduction(), whole, scatter.getAxis(), 0);
  return swapped(loc, part, scatter.getDim());
}

Value Lowering::lower(dist::SliceOp slice) {
  if (slice.getDim() == 0)
    return {};
  Location loc = slice.getLoc();
  Value whole = swapped(loc, slice.getInput(), slice.getDim());
  int64_t size = mesh.getSize(slice.getAxis());
  Value part =
      dist::SliceOp::create(builder, loc, withFirst(whole, 1, size), whole, slice.getAxis(), 0);
  return swapped(loc, part, slice.getDim());
}

/// A split moves to another dimension by a gather of the whole value, and a slice.
Value Lowering::lower(dist::AllToAllOp exchange) {
  Location loc = exchange.getLoc();
  int64_t size = mesh.getSize(exchange.getAxis());
  Value part = swapped(loc, exchange.getInput(), exchange.getConcat());
  Value whole = dist::AllGatherOp::create(builder, loc, withFirst(part, size, 1), part,
                                          exchange.getAxis(), 0);
  whole = swapped(loc, swapped(loc, whole, exchange.getConcat()), exchange.getSplit());
  Value slice =
      dist::SliceOp::create(builder, loc, withFirst(whole, 1, size), whole, exchange.getAxis(), 0);
  return swapped(loc, slice, exchange.getSplit());
}

namespace {
struct LowerCollectivesPass : impl::LowerCollectivesPassBase<LowerCollectivesPass> {
  using LowerCollectivesPassBase::LowerCollectivesPassBase;
  void runOnOperation() final {
    dist::MeshOp mesh = dist::getMesh(getOperation());
    if (!mesh)
      return;
    CopyAttributes copies;
    OpBuilder builder(&getContext(), &copies);
    Lowering lowering{builder, mesh};
    SmallVector<Operation *> all;
    bool hasWarned = false;
    getOperation().walk([&](Operation *op) {
      if (isa<CollectiveOpInterface, dist::SliceOp>(op) && !op->use_empty())
        all.push_back(op);
    });
    for (Operation *op : all) {
      copies.current = op;
      builder.setInsertionPoint(op);
      Value lowered =
          llvm::TypeSwitch<Operation *, Value>(op)
              .Case<dist::AllReduceOp, dist::AllGatherOp, dist::ReduceScatterOp, dist::SliceOp,
                    dist::AllToAllOp>([&](auto collective) { return lowering.lower(collective); })
              .Default(Value());
      if (!lowered)
        continue;
      if (isa<dist::AllToAllOp>(op) && !hasWarned) {
        hasWarned = true;
        op->emitWarning("needs ")
            << op->getOperand(0).getType()
            << " split along another dimension, so each rank gathers "
            << "all of it: if the batch is not split along the examples, name their dimension with "
               "--batch-dim INPUT:D";
      }
      op->getResult(0).replaceAllUsesWith(lowered);
      op->erase();
    }
  }
};
} // namespace

} // namespace shale
