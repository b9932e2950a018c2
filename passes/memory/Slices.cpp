//===- Slices.cpp - Forward slices recomputed in the backward pass --------===//
#include "passes/memory/Slices.h"
#include "dialects/dist/Dist.h"
#include "dialects/mem/Mem.h"
#include "dialects/nn/NN.h"
#include "lib/Analysis/Blocks.h"
#include "lib/Analysis/Modules.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace shale {

namespace {

/// The ops of one block that are cloned.
struct Slice {
  llvm::SetVector<Operation *> ops;
  /// Uses of the originals' results that are replaced by results of clones.
  SmallVector<OpOperand *> uses;
};

class SliceCloner {
public:
  explicit SliceCloner(func::FuncOp function)
      : function(function), blocks(function, findBlocks(function->getParentOfType<ModuleOp>())) {}
  int64_t run();

private:
  void need(Value value, Slice &slice);
  void clone(Slice &slice);
  Value barrierInputs(Slice &slice, OpBuilder &builder, IRMapping &mapping);

  func::FuncOp function;
  Blocks blocks;
  int64_t flops = 0;
};

} // namespace

bool isRecomputed(Value value) {
  Operation *op = viewedValue(value).getDefiningOp();
  return op && isForward(op) && op->hasAttr(mem::kRecomputeAttr) && !isa<dist::UnitGatherOp>(op);
}

/// Whether a value is a view of a part of a gathered unit, such as a reshaped parameter: it would
/// keep the unit gathered.
static bool isOfUnit(Value value) {
  Operation *op = value.getDefiningOp(), *source = viewedValue(value).getDefiningOp();
  return op && op != source && isForward(op) && isa_and_nonnull<dist::UnitGatherOp>(source);
}

/// Adds the ops that compute `value` to the slice.
void SliceCloner::need(Value value, Slice &slice) {
  SmallVector<Value> work{value};
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op || !slice.ops.insert(op))
      continue;
    for (Value operand : op->getOperands())
      if (isRecomputed(operand) || isOfUnit(operand))
        work.push_back(operand);
  }
}

static Operation *firstOf(Operation *a, Operation *b) {
  return !a || (b && b->isBeforeInBlock(a)) ? b : a;
}

/// Maps all inputs of the slice to the results of one barrier in front of its first
/// reader. Gathered units and constants do not pass through the barrier: a gather has
/// a barrier of its own, and a constant takes no memory.
Value SliceCloner::barrierInputs(Slice &slice, OpBuilder &builder, IRMapping &mapping) {
  Operation *anchor = nullptr;
  for (OpOperand *use : slice.uses)
    anchor = firstOf(anchor, use->getOwner());
  builder.setInsertionPoint(anchor);
  llvm::SetVector<Value> inputs;
  for (Operation *op : slice.ops)
    for (Value operand : op->getOperands()) {
      Operation *source = operand.getDefiningOp();
      if (source && (slice.ops.contains(source) || isa<dist::UnitGatherOp>(source) ||
                     source->hasTrait<OpTrait::ConstantLike>()))
        continue;
      inputs.insert(operand);
    }
  // A gradient that the first reader also reads keeps the clones from running earlier.
  Value gradient;
  for (Value operand : anchor->getOperands())
    if (Operation *source = operand.getDefiningOp(); source && isBackward(source) &&
                                                     !source->hasTrait<OpTrait::ConstantLike>() &&
                                                     !inputs.contains(operand))
      gradient = operand;
  SmallVector<Value> operands(inputs.getArrayRef());
  if (gradient)
    operands.push_back(gradient);
  if (operands.empty())
    return {};
  auto barrier =
      mem::BarrierOp::create(builder, anchor->getLoc(), TypeRange(ValueRange(operands)), operands);
  barrier->setAttr(nn::kPhaseAttr, anchor->getAttr(nn::kPhaseAttr));
  for (auto [input, result] : llvm::zip(inputs, barrier.getResults()))
    mapping.map(input, result);
  return gradient;
}

void SliceCloner::clone(Slice &slice) {
  OpBuilder builder(function.getContext());
  IRMapping mapping;
  (void)barrierInputs(slice, builder, mapping);
  SmallVector<Operation *> originals = slice.ops.takeVector(), clones;
  llvm::sort(originals, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  auto backward = nn::PhaseAttr::get(function.getContext(), nn::Phase::Backward);
  for (Operation *op : originals) {
    Operation *copy = builder.clone(*op, mapping);
    copy->removeAttr(mem::kRecomputeAttr);
    copy->setAttr(mem::kRecomputedAttr, UnitAttr::get(function.getContext()));
    copy->setAttr(nn::kPhaseAttr, backward);
    if (auto cost = dyn_cast<CostOpInterface>(copy))
      flops += cost.getFlops();
    else if (isa<ElementwiseOpInterface>(copy))
      flops += cast<RankedTensorType>(copy->getResult(0).getType()).getNumElements();
    clones.push_back(copy);
  }
  for (OpOperand *use : slice.uses)
    use->set(mapping.lookup(use->get()));
  for (Operation *copy : llvm::reverse(clones)) {
    Operation *first = nullptr;
    for (Operation *user : copy->getUsers())
      first = firstOf(first, user);
    if (first)
      copy->moveBefore(first);
    else
      copy->erase();
  }
}

int64_t SliceCloner::run() {
  std::map<int, Slice> slices;
  for (Operation &op : function.getBody().front()) {
    if (isForward(&op) || op.hasTrait<OpTrait::IsTerminator>())
      continue;
    for (OpOperand &operand : op.getOpOperands()) {
      // A part as it was gathered moves with the gather (MaterializeRecompute.cpp).
      bool isReshaped = isOfUnit(operand.get()) && !operand.get().getDefiningOp<dist::UnitViewOp>();
      if (!isRecomputed(operand.get()) && !isReshaped)
        continue;
      Slice &slice = slices[blocks.of(viewedValue(operand.get()).getDefiningOp())];
      slice.uses.push_back(&operand);
      need(operand.get(), slice);
    }
  }
  for (auto &[block, slice] : slices)
    clone(slice);
  return flops;
}

int64_t recomputeSlices(func::FuncOp function) { return SliceCloner(function).run(); }

} // namespace shale
