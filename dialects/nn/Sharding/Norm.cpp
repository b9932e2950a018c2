//===- Norm.cpp - Normalizations over the last dimension ------------------===//
#include "dialects/nn/Ops/Norm.h"
#include "dialects/nn/Sharding/Rules.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

namespace {
/// The factors of rows, which are parallel (or summed, for gradients of the scale),
/// and of the last dimension, which is whole.
struct RowFactors {
  RowFactors(RuleBuilder &rule, Value input, FactorKind kind = FactorKind::Parallel) {
    rows = rule.dims(shapeOf(input).drop_back(), kind);
    column = {rule.dim(shapeOf(input).back(), FactorKind::Whole)};
    all = rows;
    all.append(column.begin(), column.end());
  }
  TensorFactors rows, column, all;
};
} // namespace

ShardingRule SoftmaxOp::getShardingRule() {
  RuleBuilder rule;
  RowFactors f(rule, getInput());
  return rule.operand(f.all).result(f.all).take();
}

/// Returns the rule of a norm with `scales` vectors (scale, bias) and `statistics` numbers per row.
static ShardingRule normRule(Value input, int scales, int statistics) {
  RuleBuilder rule;
  RowFactors f(rule, input);
  rule.operand(f.all);
  for (int i = 0; i < scales; ++i)
    rule.operand(f.column);
  rule.result(f.all);
  for (int i = 0; i < statistics; ++i)
    rule.result(f.rows);
  return rule.take();
}

/// Returns the rule of a norm's gradient. Operands are input, scale, statistics and
/// the result's gradient, in which it is linear; results are the gradients of the
/// input and of each vector.
static ShardingRule normGradRule(Value input, int scales, int statistics) {
  RuleBuilder rule;
  RowFactors f(rule, input, FactorKind::Sum);
  rule.operand(f.all).operand(f.column);
  for (int i = 0; i < statistics; ++i)
    rule.operand(f.rows);
  rule.operand(f.all).result(f.all);
  for (int i = 0; i < scales; ++i)
    rule.result(f.column);
  return rule.linear({2 + statistics}).take();
}

ShardingRule LayerNormOp::getShardingRule() { return normRule(getInput(), 2, 2); }
ShardingRule LayerNormGradOp::getShardingRule() { return normGradRule(getInput(), 2, 2); }
ShardingRule RmsNormOp::getShardingRule() { return normRule(getInput(), 1, 1); }
ShardingRule RmsNormGradOp::getShardingRule() { return normGradRule(getInput(), 1, 1); }
