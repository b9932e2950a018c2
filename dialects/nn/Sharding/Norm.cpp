//===- Norm.cpp - Normalisations over the last dimension ------------------===//
#include "dialects/nn/Sharding/Rules.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

namespace {
/// Rows that run in parallel (or are summed, into gradients of the scale), and
/// the last dimension, which is whole.
struct RowFactors {
  RowFactors(RuleBuilder &rule, Value input,
             FactorKind kind = FactorKind::Parallel) {
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

ShardingRule LayerNormOp::getShardingRule() {
  RuleBuilder rule;
  RowFactors f(rule, getInput());
  return rule.operand(f.all)
      .operand(f.column)
      .operand(f.column)
      .result(f.all)
      .result(f.rows)
      .result(f.rows)
      .take();
}

ShardingRule LayerNormGradOp::getShardingRule() {
  RuleBuilder rule;
  RowFactors f(rule, getInput(), FactorKind::Sum);
  return rule.operand(f.all)
      .operand(f.column)
      .operand(f.rows)
      .operand(f.rows)
      .operand(f.all)
      .result(f.all)
      .result(f.column)
      .result(f.column)
      .linear({4})
      .take();
}

ShardingRule RmsNormOp::getShardingRule() {
  RuleBuilder rule;
  RowFactors f(rule, getInput());
  return rule.operand(f.all)
      .operand(f.column)
      .result(f.all)
      .result(f.rows)
      .take();
}

ShardingRule RmsNormGradOp::getShardingRule() {
  RuleBuilder rule;
  RowFactors f(rule, getInput(), FactorKind::Sum);
  return rule.operand(f.all)
      .operand(f.column)
      .operand(f.rows)
      .operand(f.all)
      .result(f.all)
      .result(f.column)
      .linear({3})
      .take();
}
