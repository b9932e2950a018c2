//===- Elementwise.cpp - Rules of ops that are linear in operands ---------===//
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Sharding/Rules.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

// Partial sums pass through these ops. Other elementwise ops have the interface's default.
#define RULE(Op, ...)                                                                              \
  ShardingRule Op::getShardingRule() { return elementwiseRule(*this, __VA_ARGS__); }

RULE(AddOp, {0, 1}, /*additive=*/true)
RULE(SubOp, {0, 1}, /*additive=*/true)
RULE(MulOp, {0, 1})
RULE(NegOp, {0}, /*additive=*/true)
RULE(SelectOp, {1, 2}, /*additive=*/true)

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
