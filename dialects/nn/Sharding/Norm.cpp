//===- Norm.cpp - Normalizations over the last dimension ------------------===//
#include "dialects/nn/Ops/Norm.h"
#include "dialects/nn/Decompose/Norm.h"
#include "dialects/nn/Sharding/Rules.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

namespace {
/// The factors of rows, which are parallel (or summed, for gradients of the scale),
/// and of the last dimension.
struct RowFactors {
  RowFactors(RuleBuilder &rule, Value input, FactorKind columns,
             FactorKind kind = FactorKind::Parallel) {
    rows = rule.dims(shapeOf(input).drop_back(), kind);
    column = {rule.dim(shapeOf(input).back(), columns)};
    all = rows;
    all.append(column.begin(), column.end());
  }
  TensorFactors rows, column, all;
};
} // namespace

ShardingRule SoftmaxOp::getShardingRule() {
  RuleBuilder rule;
  RowFactors f(rule, getInput(), FactorKind::Whole);
  return rule.operand(f.all).result(f.all).take();
}

/// Returns the rule of a norm with `scales` vectors (scale, bias) and `statistics` numbers per row.
static ShardingRule normRule(Value input, int scales, int statistics) {
  RuleBuilder rule;
  RowFactors f(rule, input, FactorKind::Internal);
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
  RowFactors f(rule, input, FactorKind::Internal, FactorKind::Sum);
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

using BuildNorm =
    llvm::function_ref<SmallVector<Value>(Composer &, const Rows &, ValueRange operands)>;

/// Builds a norm or its gradient. If axes split the rows, `build` gets the operands in the type of
/// the statistics, in which kernels compute.
static SmallVector<Value> partitionNorm(OpBuilder &builder, Operation *op, const ShardingRule &rule,
                                        const LocalForm &local, Type statistic, BuildNorm build) {
  constexpr unsigned scale = 1; // an operand of columns only
  ArrayRef<int64_t> columns = rule.operands[scale].front();
  Rows rows{shapeOf(op->getOperand(scale)).front(), {}};
  if (!columns.empty())
    rows.axes = local.axes[columns.front()];
  if (rows.axes.empty()) {
    Operation *made = builder.clone(*op);
    made->setOperands(local.operands);
    for (auto [result, type] : llvm::zip_equal(made->getResults(), local.types))
      result.setType(type);
    return made->getResults();
  }
  Composer b(builder, op);
  SmallVector<Value> operands, results;
  for (Value operand : local.operands)
    operands.push_back(b.cast(operand, statistic));
  for (auto [result, type] : llvm::zip_equal(build(b, rows, operands), local.types))
    results.push_back(b.cast(result, getElementTypeOrSelf(type)));
  return results;
}

FailureOr<SmallVector<Value>> LayerNormOp::partition(OpBuilder &builder, const LocalForm &local) {
  double epsilon = getEpsilon().convertToDouble();
  return partitionNorm(builder, *this, getShardingRule(), local, Composer::elementOf(getRstd()),
                       [&](Composer &b, const Rows &rows, ValueRange operands) {
                         return layerNorm(b, rows, operands, epsilon);
                       });
}

FailureOr<SmallVector<Value>> LayerNormGradOp::partition(OpBuilder &builder,
                                                         const LocalForm &local) {
  return partitionNorm(builder, *this, getShardingRule(), local, Composer::elementOf(getRstd()),
                       layerNormGrad);
}

FailureOr<SmallVector<Value>> RmsNormOp::partition(OpBuilder &builder, const LocalForm &local) {
  double epsilon = getEpsilon().convertToDouble();
  return partitionNorm(builder, *this, getShardingRule(), local, Composer::elementOf(getRstd()),
                       [&](Composer &b, const Rows &rows, ValueRange operands) {
                         return rmsNorm(b, rows, operands, epsilon);
                       });
}

FailureOr<SmallVector<Value>> RmsNormGradOp::partition(OpBuilder &builder, const LocalForm &local) {
  return partitionNorm(builder, *this, getShardingRule(), local, Composer::elementOf(getRstd()),
                       rmsNormGrad);
}
