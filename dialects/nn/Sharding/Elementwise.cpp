//===- Elementwise.cpp - All dimensions in parallel -----------------------===//
#include "dialects/nn/Sharding/Rules.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

/// All operands and the result share one factor per dimension.
static ShardingRule elementwiseRule(Operation *op, ArrayRef<int64_t> linear = {},
                                    bool additive = false) {
  RuleBuilder rule;
  TensorFactors dims = rule.dims(shapeOf(op->getResult(0)));
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    rule.operand(dims);
  return rule.result(dims).linear(linear, additive).take();
}

#define RULE(Op, ...)                                                                              \
  ShardingRule Op::getShardingRule() { return elementwiseRule(*this, __VA_ARGS__); }
#define NONLINEAR(Op)                                                                              \
  ShardingRule Op::getShardingRule() { return elementwiseRule(*this); }

RULE(AddOp, {0, 1}, /*additive=*/true)
RULE(SubOp, {0, 1}, /*additive=*/true)
RULE(MulOp, {0, 1})
RULE(NegOp, {0}, /*additive=*/true)
RULE(SelectOp, {1, 2}, /*additive=*/true)

NONLINEAR(RemOp)
NONLINEAR(MaxOp)
NONLINEAR(MinOp)
NONLINEAR(PowOp)
NONLINEAR(AndOp)
NONLINEAR(OrOp)
NONLINEAR(XorOp)
NONLINEAR(NotOp)
NONLINEAR(AbsOp)
NONLINEAR(SignOp)
NONLINEAR(FloorOp)
NONLINEAR(CeilOp)
NONLINEAR(ExpOp)
NONLINEAR(LogOp)
NONLINEAR(SqrtOp)
NONLINEAR(RsqrtOp)
NONLINEAR(TanhOp)
NONLINEAR(ErfOp)
NONLINEAR(SigmoidOp)
NONLINEAR(SinOp)
NONLINEAR(CosOp)
NONLINEAR(SiluOp)
NONLINEAR(GeluOp)
NONLINEAR(IsNanOp)
NONLINEAR(CompareOp)

// Integer division truncates: a sum of quotients is not the quotient of the sums.
ShardingRule DivOp::getShardingRule() {
  if (isa<FloatType>(tensorOf(getResult()).getElementType()))
    return elementwiseRule(*this, {0});
  return elementwiseRule(*this);
}

// Partial sums may be widened but not narrowed: they would be reduced in the
// narrow type.
ShardingRule CastOp::getShardingRule() {
  auto from = dyn_cast<FloatType>(tensorOf(getInput()).getElementType());
  auto to = dyn_cast<FloatType>(tensorOf(getResult()).getElementType());
  if (from && to && to.getWidth() >= from.getWidth())
    return elementwiseRule(*this, {0}, /*additive=*/true);
  return elementwiseRule(*this);
}
