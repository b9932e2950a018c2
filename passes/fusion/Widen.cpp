//===- Widen.cpp - Computes ops on 16-bit floats in f32 -------------------===//
#include "dialects/nn/Ops/Cast.h"
#include "lib/Target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/fusion/Passes.h"

namespace shale {
#define GEN_PASS_DEF_WIDENPASS
#include "passes/fusion/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;

namespace {

bool is16BitFloatTensor(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor && is16BitFloat(tensor.getElementType());
}

RankedTensorType wide(Value value) {
  return cast<RankedTensorType>(accumulatorType(value.getType()));
}

/// Whether the op computes on 16-bit floats and the target does not support that.
bool needsWidening(Operation *op, const Target &target) {
  auto precision = dyn_cast<PrecisionOpInterface>(op);
  if (!precision || isa<nn::CastOp>(op) || precision.movesOnly() || target.takes16BitFloats(op))
    return false;
  return llvm::any_of(op->getOperands(), is16BitFloatTensor) ||
         llvm::any_of(op->getResults(), is16BitFloatTensor);
}

/// Lets kernels that support 16-bit floats round their accumulated results if only the
/// rounded value is read: the f32 value is not stored.
void roundInKernels(Block &block, const Target &target) {
  for (nn::CastOp cast : llvm::make_early_inc_range(block.getOps<nn::CastOp>())) {
    auto sum = dyn_cast<OpResult>(cast.getInput());
    auto maker = sum ? dyn_cast<PrecisionOpInterface>(sum.getOwner()) : PrecisionOpInterface();
    if (!maker || !target.takes16BitFloats(maker) ||
        maker.getResultNumeric(sum.getResultNumber()) != Numeric::Accumulates || !sum.hasOneUse() ||
        !is16BitFloatTensor(cast.getResult()) ||
        cast.getInput().getType() != wide(cast.getResult()))
      continue;
    Type narrow = cast.getType().getElementType();
    if (llvm::any_of(maker->getOperandTypes(),
                     [&](Type type) { return getElementTypeOrSelf(type) != narrow; }))
      continue;
    sum.setType(cast.getType());
    cast.getResult().replaceAllUsesWith(sum);
    cast.erase();
  }
}

class Widener {
public:
  explicit Widener(const Target &target) : target(target) {}

  void run(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(block))
      if (needsWidening(&op, target))
        widen(&op);
  }

private:
  nn::CastOp makeCast(OpBuilder &builder, Operation *like, RankedTensorType type, Value value) {
    auto made = nn::CastOp::create(builder, like->getLoc(), type, value);
    made->setDiscardableAttrs(like->getDiscardableAttrDictionary());
    return made;
  }

  void widen(Operation *op) {
    OpBuilder builder(op);
    // A cast costs nothing in the kernel of its reader; a cast shared by several readers would be
    // stored.
    bool alone = isa<DecomposableOpInterface, ElementwiseOpInterface, IndexedOpInterface>(op) &&
                 !target.hasOwnKernel(op);
    DenseMap<std::pair<Value, Attribute>, Value> own;
    for (OpOperand &operand : op->getOpOperands()) {
      if (!is16BitFloatTensor(operand.get()))
        continue;
      Value &made = (alone ? own : casts)[{operand.get(), nn::phaseOf(op)}];
      if (!made)
        made = makeCast(builder, op, wide(operand.get()), operand.get());
      operand.set(made);
    }
    builder.setInsertionPointAfter(op);
    for (Value result : op->getResults()) {
      if (!is16BitFloatTensor(result))
        continue;
      auto narrow = cast<RankedTensorType>(result.getType());
      result.setType(wide(result));
      nn::CastOp rounded = makeCast(builder, op, narrow, result);
      result.replaceAllUsesExcept(rounded.getResult(), rounded);
    }
  }

  const Target &target;
  DenseMap<std::pair<Value, Attribute>, Value> casts;
};

struct WidenPass : shale::impl::WidenPassBase<WidenPass> {
  using WidenPassBase::WidenPassBase;
  void runOnOperation() override {
    const Target *target = targetOf(getOperation());
    if (!target)
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Block &block : function.getBody()) {
        roundInKernels(block, *target);
        Widener(*target).run(block);
      }
  }
};

} // namespace
