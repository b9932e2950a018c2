//===- LossParts.cpp - The sum, the count and the labels of a loss --------===//
#include "lib/Analysis/LossParts.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Gather.h"
#include "dialects/nn/Ops/Loss.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Analysis/Origins.h"

using namespace mlir;
using namespace shale;

static RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Strips casts and changes of shape.
static Value peel(Value value) {
  while (isa_and_nonnull<nn::ReshapeOp, nn::BroadcastOp, nn::CastOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

Value shale::countIn(Value divisor) {
  Operation *op = divisor.getDefiningOp();
  auto isNumber = [](Value value) {
    return isa_and_nonnull<nn::ConstantOp>(peel(value).getDefiningOp());
  };
  if (isa_and_nonnull<nn::MaxOp>(op))
    for (int number : {1, 0})
      if (isNumber(op->getOperand(number)))
        return op->getOperand(1 - number);
  if (auto select = dyn_cast_or_null<nn::SelectOp>(op); select && isNumber(select.getOnFalse()))
    return select.getOnTrue();
  return divisor;
}

/// Whether a value is a sum that depends on inputs, and on no parameter.
static bool isCountOfData(Value value, llvm::function_ref<bool(Value)> isState) {
  bool sums = false, reads = false, readsState = false;
  walkBack(value, [&](Value next) {
    auto loss = next.getDefiningOp<nn::CrossEntropyOp>();
    bool isCount = loss && next == loss.getCount();
    auto reduce = next.getDefiningOp<nn::ReduceOp>();
    sums |= isCount || (reduce && reduce.getKind() == nn::ReduceKind::Sum);
    reads |= isCount || isa<BlockArgument>(next);
    readsState |= isa<BlockArgument>(next) && isState(next);
    return !isCount && !readsState;
  });
  return sums && reads && !readsState;
}

nn::DivOp shale::findMean(Value loss, llvm::function_ref<bool(Value)> isState) {
  nn::DivOp found;
  walkBack(loss, [&](Value next) {
    bool isTerm = isa_and_nonnull<nn::AddOp, nn::SubOp, nn::MulOp, nn::DivOp, nn::NegOp,
                                  nn::ReshapeOp, nn::CastOp>(next.getDefiningOp());
    if (found || !isTerm || tensor(next).getNumElements() != 1)
      return false;
    if (auto quotient = next.getDefiningOp<nn::DivOp>();
        quotient && isCountOfData(countIn(quotient.getRhs()), isState))
      found = quotient;
    return !found;
  });
  return found;
}

/// Returns the scores that a one-hot mask multiplies or selects; null if none.
static Value scoresOf(Value mask) {
  SmallVector<Value> work{mask};
  for (size_t i = 0; i < work.size() && i < 16; ++i)
    for (Operation *user : work[i].getUsers()) {
      if (isa<nn::CastOp, nn::BroadcastOp, nn::ReshapeOp, nn::TransposeOp>(user)) {
        work.push_back(user->getResult(0));
      } else if (auto product = dyn_cast<nn::MulOp>(user)) {
        return product.getLhs() == work[i] ? product.getRhs() : product.getLhs();
      } else if (auto select = dyn_cast<nn::SelectOp>(user);
                 select && select.getCondition() == work[i]) {
        if (peel(select.getOnTrue()).getDefiningOp<nn::ConstantOp>()) // one-hot numbers
          work.push_back(select.getResult());
        else
          return select.getOnTrue();
      }
    }
  return {};
}

/// Sets labels and scores of the op if it compares labels with classes or picks the score of a
/// label.
static void readLabels(Operation *op, LossParts &parts) {
  auto set = [&](Value labels, Value logits, bool isGuess) {
    parts.labels = labels, parts.logits = logits, parts.isGuess = isGuess;
  };
  if (auto loss = dyn_cast<nn::CrossEntropyOp>(op))
    return set(loss.getLabels(), loss.getLogits(), false);
  if (auto pick = dyn_cast<nn::GatherNdOp>(op)) {
    auto scores = tensor(pick.getInput()), at = tensor(pick.getIndices());
    if (isa<FloatType>(scores.getElementType()) && at.getShape().back() == 1 &&
        int64_t(pick.getBatchDims()) + 1 == scores.getRank())
      set(pick.getIndices(), pick.getInput(), true);
    return;
  }
  auto compare = dyn_cast<nn::CompareOp>(op);
  if (!compare || compare.getPredicate() != nn::Predicate::EQ ||
      !tensor(compare.getLhs()).getElementType().isSignlessInteger())
    return;
  auto isClasses = [](Value value) {
    Operation *op = peel(value).getDefiningOp();
    auto constant = dyn_cast_or_null<nn::ConstantOp>(op);
    auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
    return isa_and_nonnull<nn::IotaOp>(op) || (dense && !dense.isSplat());
  };
  bool left = isClasses(compare.getLhs()), right = isClasses(compare.getRhs());
  if (Value scores = left != right ? scoresOf(compare.getResult()) : Value())
    set(peel(left ? compare.getRhs() : compare.getLhs()), scores, true);
}

void shale::findLabels(Value loss, LossParts &parts) {
  walkBack(loss, [&](Value next) {
    if (Operation *op = parts.labels ? nullptr : next.getDefiningOp())
      readLabels(op, parts);
    return !parts.labels;
  });
}
