//===- VerifyMemory.cpp - Exit contract of memory -------------------------===//
#include "dialects/mem/Mem.h"
#include "dialects/nn/NN.h"
#include "lib/Analysis/Blocks.h"
#include "lib/Support/Remarks.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/memory/Intervals.h"
#include "passes/memory/Passes.h"
#include "passes/memory/Slices.h"
#include "passes/memory/Spaces.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_VERIFYMEMORYPASS
#include "passes/memory/Passes.h.inc"

static LogicalResult verifyGathers(func::FuncOp function, int64_t bound) {
  UnitIntervals intervals(function, bound);
  llvm::MapVector<std::pair<StringAttr, int64_t>, SmallVector<dist::UnitGatherOp>> gathers;
  for (auto gather : function.getOps<dist::UnitGatherOp>())
    gathers[{gather.getUnitAttr().getAttr(), gather.getGroup()}].push_back(gather);
  for (auto &[key, list] : gathers) {
    int64_t expected = 1;
    if (list.front()->hasAttr(mem::kRecomputeAttr)) {
      expected = 0;
      for (const Interval &interval : intervals.of(key.first))
        expected += llvm::any_of(list, [&](dist::UnitGatherOp gather) {
          return llvm::any_of(UnitIntervals::usesOf(gather), [&](OpOperand *use) {
            int64_t at = intervals.positionOf(use->getOwner());
            return interval.begin <= at && at <= interval.end;
          });
        });
    }
    if (static_cast<int64_t>(list.size()) != expected)
      return list.front().emitOpError("group ")
             << key.second << " of unit '" << key.first.getValue() << "' is gathered "
             << list.size() << " times in @" << function.getSymName() << ", expected " << expected;
  }
  return success();
}

/// Checks that no op after the forward pass reads a result that is not kept.
static LogicalResult verifyNotKept(func::FuncOp function) {
  for (Operation &op : function.getBody().front()) {
    if (isForward(&op) || op.hasTrait<OpTrait::IsTerminator>())
      continue;
    for (Value operand : op.getOperands()) {
      if (!isRecomputed(operand))
        continue;
      InFlightDiagnostic diag = op.emitOpError(
          "reads a result with mem.recompute after the forward pass: it must read the recomputed op");
      diag.attachNote(viewedValue(operand).getLoc()) << "made here";
      return diag;
    }
  }
  return success();
}

/// Checks that recomputed ops read kept values through a barrier. Otherwise CSE could
/// merge them with the originals, or they could be moved to the forward pass.
static LogicalResult verifyRecomputed(func::FuncOp function) {
  for (Operation &op : function.getBody().front())
    if (op.hasAttr(mem::kRecomputedAttr))
      for (Value operand : op.getOperands()) {
        Operation *source = operand.getDefiningOp();
        if (!source ||
            !(source->hasAttr(mem::kRecomputedAttr) || source->hasTrait<OpTrait::ConstantLike>() ||
              isa<mem::BarrierOp, dist::UnitGatherOp>(source) ||
              (isa<dist::UnitViewOp>(op) && isa<mem::ReloadOp>(source))))
          return op.emitOpError(
                     "is recomputed, but a mem.barrier is missing: it reads an operand directly, ")
                 << operand.getType();
      }
  return success();
}

/// Checks that each op's operands are in the memory where it runs, and new state in its home
/// memory.
static LogicalResult verifySpaces(func::FuncOp function) {
  for (Operation &op : function.getBody().front()) {
    bool leaves = op.hasTrait<OpTrait::IsTerminator>();
    if (isView(&op))
      continue;
    for (OpOperand &operand : op.getOpOperands()) {
      Value value = operand.get();
      if (isInBothMemories(value))
        continue;
      bool wanted = leaves
                        ? isHostResult(function, operand.getOperandNumber())
                        : isa<mem::ReloadOp>(op) || (!isa<mem::OffloadOp>(op) && runsOnHost(&op));
      if (isOnHost(value) != wanted)
        return op.emitOpError("operand ")
               << operand.getOperandNumber() << " is in " << (wanted ? "device" : "host")
               << " memory; it must be in " << (wanted ? "host" : "device") << " memory";
    }
  }
  return success();
}

/// Checks that no gather equals an annotated one. CSE would merge the two; the barrier
/// between them is missing.
static LogicalResult verifyBarriers(func::FuncOp function) {
  auto hash = [](Operation *op) {
    return OperationEquivalence::computeHash(
        op, OperationEquivalence::directHashValue, OperationEquivalence::ignoreHashValue,
        OperationEquivalence::IgnoreLocations | OperationEquivalence::IgnoreDiscardableAttrs);
  };
  auto equal = [](Operation *a, Operation *b) {
    return OperationEquivalence::isEquivalentTo(
        a, b, OperationEquivalence::exactValueMatch, nullptr,
        OperationEquivalence::IgnoreLocations | OperationEquivalence::IgnoreDiscardableAttrs);
  };
  llvm::DenseMap<size_t, SmallVector<Operation *, 1>> annotated;
  for (Operation &op : function.getBody().front())
    if (op.hasAttr(mem::kRecomputeAttr) && isa<CollectiveOpInterface>(op))
      annotated[hash(&op)].push_back(&op);
  for (Operation &op : function.getBody().front()) {
    auto it = annotated.find(hash(&op));
    if (it == annotated.end())
      continue;
    for (Operation *other : it->second)
      if (other != &op && equal(other, &op)) {
        InFlightDiagnostic diag =
            op.emitOpError("equals another gather: a mem.barrier is missing between them");
        diag.attachNote(other->getLoc()) << "the other one";
        return diag;
      }
  }
  return success();
}

/// Emits a remark on what is recomputed and gathered again.
static void remarkAgain(func::FuncOp function) {
  int64_t ops = 0, flops = 0, bytes = 0, again = 0, gathered = 0;
  DenseMap<std::pair<StringAttr, int64_t>, int64_t> gathers;
  for (Operation &op : function.getBody().front()) {
    if (auto gather = dyn_cast<dist::UnitGatherOp>(op)) {
      if (gathers[{gather.getUnitAttr().getAttr(), gather.getGroup()}]++ == 0)
        continue;
      ++again;
      gathered += nn::tensorBytes(cast<RankedTensorType>(gather.getResult().getType()));
    } else if (op.hasAttr(mem::kRecomputedAttr)) {
      ++ops;
      if (auto cost = dyn_cast<CostOpInterface>(op))
        flops += cost.getFlops();
      for (Type type : op.getResultTypes())
        if (auto tensor = dyn_cast<RankedTensorType>(type))
          bytes += nn::tensorBytes(tensor);
    }
  }
  if (ops + again > 0)
    emitDecision(function.getLoc(), "memory",
                 llvm::formatv("@{0} computes {1} ops again ({2} bytes, {3} flops) and gathers {4} "
                               "groups again ({5} bytes)",
                               function.getSymName(), ops, bytes, flops, again, gathered)
                     .str());
}

namespace {
struct VerifyMemoryPass : impl::VerifyMemoryPassBase<VerifyMemoryPass> {
  using VerifyMemoryPassBase::VerifyMemoryPassBase;
  void runOnOperation() final {
    if (getOperation().isExternal() || !getOperation().getBody().hasOneBlock())
      return;
    if (failed(verifySpaces(getOperation())) || failed(verifyNotKept(getOperation())) ||
        failed(verifyRecomputed(getOperation())) || failed(verifyBarriers(getOperation())) ||
        failed(verifyGathers(getOperation(), maxGathersInFlight)))
      return signalPassFailure();
    remarkAgain(getOperation());
  }
};
} // namespace

} // namespace shale
