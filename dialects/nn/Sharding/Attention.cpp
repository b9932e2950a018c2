//===- Attention.cpp - Batch rows and heads in parallel -------------------===//
#include "dialects/nn/Sharding/Rules.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

namespace {
/// Query head h = g * r + i reads key head g: heads split over g first. Where
/// the r query heads of one key head are split its gradient is a partial sum.
/// Positions and the depth of a head are whole.
struct AttentionFactors {
  AttentionFactors(RuleBuilder &rule, Value q, Value k, Value v, Value m) {
    int64_t heads = shapeOf(q)[1], groups = shapeOf(k)[1];
    auto batch = rule.dim(shapeOf(q)[0]);
    auto group = rule.dim(groups);
    SmallVector<int64_t, 2> head = group;
    head.append(rule.dim(heads / groups, FactorKind::Sum));
    auto t = rule.dim(shapeOf(q)[2], FactorKind::Whole);
    auto s = rule.dim(shapeOf(k)[2], FactorKind::Whole);
    auto d = rule.dim(shapeOf(q)[3], FactorKind::Whole);
    auto e = rule.dim(shapeOf(v)[3], FactorKind::Whole);
    query = {batch, head, t, d};
    key = {batch, group, s, d};
    value = {batch, group, s, e};
    output = {batch, head, t, e};
    lse = {batch, head, t};
    if (m) {
      TensorFactors full = {batch, head, t, s};
      for (auto [size, factors] : llvm::zip(shapeOf(m), full))
        mask.push_back(size == 1 ? SmallVector<int64_t, 2>() : factors);
    }
  }
  TensorFactors query, key, value, output, lse, mask;
};
} // namespace

ShardingRule AttentionOp::getShardingRule() {
  RuleBuilder rule;
  AttentionFactors f(rule, getQuery(), getKey(), getValue(), getMask());
  rule.operand(f.query).operand(f.key).operand(f.value);
  if (getMask())
    rule.operand(f.mask);
  return rule.result(f.output).result(f.lse).take();
}

ShardingRule AttentionGradOp::getShardingRule() {
  RuleBuilder rule;
  AttentionFactors f(rule, getQuery(), getKey(), getValue(), getMask());
  rule.operand(f.query)
      .operand(f.key)
      .operand(f.value)
      .operand(f.output)
      .operand(f.lse)
      .operand(f.output);
  if (getMask())
    rule.operand(f.mask);
  return rule.result(f.query).result(f.key).result(f.value).linear({5}).take();
}

ShardingRule RopeOp::getShardingRule() {
  RuleBuilder rule;
  ArrayRef<int64_t> shape = shapeOf(getInput());
  TensorFactors input = rule.dims(shape.drop_back());
  auto half = rule.dim(shapeOf(getCos())[1], FactorKind::Whole);
  TensorFactors table = {input.back(), half};
  input.push_back(rule.dim(shape.back(), FactorKind::Whole));
  return rule.operand(input)
      .operand(table)
      .operand(table)
      .result(input)
      .linear({0})
      .take();
}
