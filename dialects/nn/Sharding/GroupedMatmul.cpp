//===- GroupedMatmul.cpp - Matmuls of groups of rows ----------------------===//
#include "dialects/nn/Ops/GroupedMatmul.h"
#include "dialects/nn/Sharding/Rules.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

// Rows and groups stay whole: where a group ends is a number of all rows.

/// [s, k] x [e, k, n] -> [s, n]: partial where k is split.
ShardingRule GroupedMatmulOp::getShardingRule() {
  RuleBuilder rule;
  ArrayRef<int64_t> lhs = shapeOf(getLhs()), result = shapeOf(getResult());
  auto rows = rule.dim(lhs[0], FactorKind::Whole);
  auto groups = rule.dim(shapeOf(getEnds())[0], FactorKind::Whole);
  auto n = rule.dim(result[1]);
  auto k = rule.dim(lhs[1], FactorKind::Sum);
  return rule.operand({rows, k})
      .operand(getTransposeRhs() ? TensorFactors{groups, n, k} : TensorFactors{groups, k, n})
      .operand({groups})
      .result({rows, n})
      .linear({0, 1})
      .take();
}

/// [s, k] x [s, n] -> [e, k, n].
ShardingRule GroupedMatmulGradOp::getShardingRule() {
  RuleBuilder rule;
  ArrayRef<int64_t> lhs = shapeOf(getLhs());
  auto rows = rule.dim(lhs[0], FactorKind::Whole);
  auto groups = rule.dim(shapeOf(getEnds())[0], FactorKind::Whole);
  auto k = rule.dim(lhs[1]), n = rule.dim(shapeOf(getRhs())[1]);
  return rule.operand({rows, k})
      .operand({rows, n})
      .operand({groups})
      .result({groups, k, n})
      .linear({0, 1})
      .take();
}
