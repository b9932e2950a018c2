//===- MaterializeUnits.cpp - Stores parameters in flat groups ------------===//
#include "dialects/mem/Mem.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Support/Remarks.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/UnitRewriter.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_MATERIALIZEUNITSPASS
#include "passes/sharding/Passes.h.inc"

namespace {

/// Emits a remark with the number of units, the largest one and the padding.
static void remarkUnits(ModuleOp module, const Units &units) {
  llvm::MapVector<Operation *, int64_t> bytes;
  int64_t used = 0, all = 0;
  for (const Group &group : units.groups) {
    int64_t size = group.attr.getCount() * nn::elementBytes(group.attr.getType());
    bytes[group.unit] += size;
    all += size;
    for (auto segment : group.attr.getSegments().getAsRange<dist::SegmentAttr>())
      used += segment.getCount() * nn::elementBytes(group.attr.getType());
  }
  int64_t largest = 0;
  StringRef name;
  for (auto [unit, size] : bytes)
    if (size > largest) {
      largest = size;
      name = cast<dist::UnitOp>(unit).getSymName();
    }
  emitDecision(module.getLoc(), "materialize-units",
               llvm::formatv("{0} units of {1} bytes, {2} of them padding; the largest is '{3}' "
                             "with {4} bytes",
                             bytes.size(), all, all - used, name, largest)
                   .str());
}

struct MaterializeUnitsPass : impl::MaterializeUnitsPassBase<MaterializeUnitsPass> {
  using MaterializeUnitsPassBase::MaterializeUnitsPassBase;
  void runOnOperation() final {
    ModuleOp module = getOperation();
    dist::MeshOp mesh = meshOfFunctions(module);
    if (!mesh)
      return signalPassFailure();
    SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    for (func::FuncOp function : functions)
      if (failed(verifyStateUses(function, mesh)))
        return signalPassFailure();
    SmallVector<nn::StateOp> moments;
    for (auto state : module.getOps<nn::StateOp>())
      if (state.getOf())
        moments.push_back(state);
    FailureOr<Units> units = Units::build(module, mesh);
    if (failed(units))
      return signalPassFailure();
    for (func::FuncOp function : functions)
      if (failed(UnitRewriter::rewrite(function, mesh, *units)))
        return signalPassFailure();
    remarkUnits(module, *units);
    // Flat states replace these; states of parameters stay, since segments name them.
    for (nn::StateOp moment : moments)
      moment.erase();
  }
};

} // namespace

} // namespace shale
