//===- Plan.cpp - Lowers functions of tensors to rt -----------------------===//
#include "dialects/mem/Mem.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Analysis/Arena.h"
#include "lib/Support/Remarks.h"
#include "passes/plan/Categories.h"
#include "passes/plan/EmitProgram.h"
#include "passes/plan/Passes.h"
#include "passes/plan/PlaceValues.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;

namespace shale {
#define GEN_PASS_DEF_PLANPASS
#include "passes/plan/Passes.h.inc"
} // namespace shale

/// Collects the types of all states that functions use, as each rank holds them.
static LogicalResult collectStates(ModuleOp module, llvm::MapVector<StringAttr, Type> &states) {
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments()) {
      auto state =
          function.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), nn::kStateAttr);
      if (!state)
        continue;
      Type &type = states[state.getAttr()];
      if (type && type != argument.getType())
        return function.emitOpError() << "takes state " << state << " as " << argument.getType()
                                      << ", another function as " << type;
      type = argument.getType();
    }
  return success();
}

namespace {
/// Bytes of a block in each memory.
using BlockBytes = mem::PerMemory<int64_t>;
} // namespace

/// Lays out the state blocks: parameters first, in the order of the module.
static FailureOr<BlockBytes> layOutState(ModuleOp module) {
  llvm::MapVector<StringAttr, Type> types;
  if (failed(collectStates(module, types)))
    return failure();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  BlockBytes total;
  auto place = [&](nn::StateOp state) -> LogicalResult {
    Type type = types.lookup(state.getSymNameAttr());
    if (!type)
      return success();
    int64_t bytes = nn::tensorBytes(cast<RankedTensorType>(type));
    mem::Memory home = mem::getHome(state);
    int64_t &offset = total[home];
    if (bytes < 0 || bytes > INT64_MAX / 2 - offset)
      return state.emitOpError("does not fit any memory: ") << type;
    rt::Category category = categoryOf(state.getRole());
    rt::SlotOp::create(builder, state.getLoc(), rt::slotName(state.getSymName()), offset, type,
                       state->getAttrOfType<StringAttr>(dist::kAxisAttr), category, home);
    offset += llvm::alignTo(bytes, rt::kAlignment);
    return success();
  };
  for (bool parameters : {true, false})
    for (auto state : module.getOps<nn::StateOp>()) {
      bool parameter = categoryOf(state.getRole()) == rt::Category::Parameters;
      if (parameter == parameters && failed(place(state)))
        return failure();
    }
  return total;
}

namespace {
struct PlanPass : public shale::impl::PlanPassBase<PlanPass> {
  using Base::Base;

  /// Plans one function. Returns the bytes of the arenas that it needs.
  FailureOr<BlockBytes> planFunction(func::FuncOp function, KernelTable &kernels,
                                     ProgramCounters &counters) {
    if (!function.getBody().hasOneBlock())
      return function.emitOpError("must have one block to be planned"), failure();
    FailureOr<Placement> placement = placeValues(function, kernels.target);
    if (failed(placement))
      return failure();
    SmallVector<int64_t> offsets(placement->getAllocations().size(), 0);
    BlockBytes total;
    for (mem::Memory memory : mem::kMemories) {
      SmallVector<Lifetime> lifetimes;
      SmallVector<int64_t> ids;
      for (auto [id, allocation] : llvm::enumerate(placement->getAllocations()))
        if (allocation.space == rt::Space::Arena && allocation.memory == memory &&
            allocation.into < 0 && allocation.end >= 0) {
          lifetimes.push_back({allocation.bytes, allocation.begin, allocation.end});
          ids.push_back(id);
        }
      ArenaLayout layout = layOutArena(lifetimes, rt::kAlignment);
      for (auto [id, offset] : llvm::zip(ids, layout.offsets))
        offsets[id] = offset;
      total[memory] = layout.bytes;
      if (memory == mem::Memory::Host && lifetimes.empty())
        continue;
      int64_t live = maxLiveBytes(lifetimes, rt::kAlignment);
      emitDecision(function.getLoc(), "plan",
                   llvm::formatv("{0} buffers of @{1} in {2} bytes of {3}; {4} are live at the "
                                 "peak, {5} are gaps",
                                 lifetimes.size(), function.getSymName(), layout.bytes,
                                 memory == mem::Memory::Host ? "host arena" : "arena", live,
                                 layout.bytes - live)
                       .str());
    }
    if (failed(emitProgram(function, *placement, offsets, kernels, counters)))
      return failure();
    return total;
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (threads < 0 || threads > 65536) {
      module.emitError("threads must be 0 to 65536; got ") << threads.getValue();
      return signalPassFailure();
    }
    const Target *target = targetOf(module);
    if (!target)
      return signalPassFailure();
    FailureOr<BlockBytes> stateBytes = layOutState(module);
    if (failed(stateBytes))
      return signalPassFailure();
    KernelTable kernels(module, *target);
    ProgramCounters counters;
    BlockBytes arenaBytes;
    SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    for (func::FuncOp function : functions) {
      FailureOr<BlockBytes> bytes = planFunction(function, kernels, counters);
      if (failed(bytes))
        return signalPassFailure();
      for (mem::Memory memory : mem::kMemories)
        arenaBytes[memory] = std::max(arenaBytes[memory], (*bytes)[memory]);
    }
    for (func::FuncOp function : functions)
      function.erase();
    Builder builder(module.getContext());
    auto note = [&](StringRef name, int64_t bytes) {
      module->setAttr(name, builder.getI64IntegerAttr(bytes));
    };
    note(rt::kStateBytesAttr, stateBytes->device);
    note(rt::kArenaBytesAttr, arenaBytes.device);
    if (stateBytes->host || arenaBytes.host) {
      note(rt::kHostStateBytesAttr, stateBytes->host);
      note(rt::kHostArenaBytesAttr, arenaBytes.host);
    }
    module->setAttr(rt::kThreadsAttr, builder.getI64IntegerAttr(std::max<int64_t>(threads, 1)));
    if (allowTf32)
      module->setAttr(rt::kAllowTf32Attr, builder.getUnitAttr());
    if (fastMath)
      module->setAttr(rt::kFastMathAttr, builder.getUnitAttr());
  }
};
} // namespace
