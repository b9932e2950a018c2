//===- RecognizeLoss.cpp - Losses that a graph writes out -----------------===//
//
// A mean over labels has to be a mean over the labels of the whole step, for any number of
// micro-batches. In a loss that is built from several ops, the sum and the count are the operands
// of a quotient. The first quotient of a sum of several losses gives the labels of the whole sum.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Gather.h"
#include "dialects/nn/Ops/Loss.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Frontend/ONNX/Building.h"
#include "lib/Frontend/ONNX/Trace.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Strips casts and changes of shape.
static Value peel(Value value) {
  while (isa_and_nonnull<nn::ReshapeOp, nn::BroadcastOp, nn::CastOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

/// Returns the count of a divisor: c of c, max(c, number) and select(.., c, number).
static Value countIn(Value divisor) {
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
static bool isCountOfData(Value value, const States &states) {
  bool sums = false, reads = false, readsState = false;
  walkBack(value, [&](Value next) {
    auto loss = next.getDefiningOp<nn::CrossEntropyOp>();
    bool isCount = loss && next == loss.getCount();
    auto reduce = next.getDefiningOp<nn::ReduceOp>();
    sums |= isCount || (reduce && reduce.getKind() == nn::ReduceKind::Sum);
    reads |= isCount || isa<BlockArgument>(next);
    readsState |= isa<BlockArgument>(next) && states.contains(next);
    return !isCount && !readsState;
  });
  return sums && reads && !readsState;
}

/// Finds a quotient by a count among the terms and factors of a scalar.
static nn::DivOp findQuotient(Value loss, llvm::function_ref<bool(Value)> isCount) {
  nn::DivOp found;
  walkBack(loss, [&](Value next) {
    bool isTerm = isa_and_nonnull<nn::AddOp, nn::SubOp, nn::MulOp, nn::DivOp, nn::NegOp,
                                  nn::ReshapeOp, nn::CastOp>(next.getDefiningOp());
    if (found || !isTerm || tensor(next).getNumElements() != 1)
      return false;
    if (auto quotient = next.getDefiningOp<nn::DivOp>(); quotient && isCount(quotient.getRhs()))
      found = quotient;
    return !found;
  });
  return found;
}

LossParts onnx::asMean(Tensor &loss, Value mean, Value count) {
  Node &node = loss.node();
  OpBuilder &builder = node.builder;
  auto scalar = loss.type();
  auto toScalar = [&](Value value) {
    if (tensor(value).getRank() != 0)
      value = nn::ReshapeOp::create(builder, node.loc, tensor(value).clone(Sizes()), value);
    if (value.getType() != scalar)
      value = nn::CastOp::create(builder, node.loc, scalar, value);
    return Tensor(node, value);
  };
  Tensor divisor = toScalar(count);
  LossParts parts{{}, divisor};
  while (isa_and_nonnull<nn::ReshapeOp, nn::CastOp>(mean.getDefiningOp()))
    mean = mean.getDefiningOp()->getOperand(0);
  if (auto quotient = mean.getDefiningOp<nn::DivOp>(); quotient && quotient.getRhs() != count) {
    // The same bound on the count, which may have been of another type or shape.
    Operation *bound = quotient.getRhs().getDefiningOp();
    if (isa_and_nonnull<nn::MaxOp>(bound))
      divisor = max(divisor, toScalar(bound->getOperand(bound->getOperand(0) == count)));
    else if (auto select = dyn_cast_or_null<nn::SelectOp>(bound))
      divisor = onnx::select(divisor > 0, divisor, toScalar(select.getOnFalse()));
  }
  Tensor sum = loss * divisor;
  loss = sum / divisor;
  parts.sum = sum;
  return parts;
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

LossParts onnx::recognizeLoss(Tensor &loss) {
  const States &states = loss.node().building.states;
  auto isCount = [&](Value divisor) { return isCountOfData(countIn(divisor), states); };
  Value whole = loss;
  LossParts parts;
  if (nn::DivOp quotient = findQuotient(loss, isCount)) {
    Value count = countIn(quotient.getRhs());
    parts = quotient.getResult() == whole ? LossParts{quotient.getLhs(), count}
                                          : asMean(loss, quotient, count);
  } else {
    parts = {loss, loss.like(1)};
  }
  // The labels and logits that are nearest to the loss, if there are any.
  walkBack(whole, [&](Value next) {
    if (Operation *op = parts.labels ? nullptr : next.getDefiningOp())
      readLabels(op, parts);
    return !parts.labels;
  });
  return parts;
}
