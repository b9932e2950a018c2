//===- Matmul.cpp - Matmuls -----------------------------------------------===//
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Sharding/Rules.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

/// [b, m, k] x [b, k, n] -> [b, m, n]: partial where k is split.
ShardingRule MatmulOp::getShardingRule() {
  RuleBuilder rule;
  ArrayRef<int64_t> lhs = shapeOf(getLhs()), out = shapeOf(getResult());
  size_t rank = out.size();
  TensorFactors batch = rule.dims(out.drop_back(2));
  auto m = rule.dim(out[rank - 2]), n = rule.dim(out[rank - 1]);
  auto k = rule.dim(lhs[getTransposeLhs() ? rank - 2 : rank - 1], FactorKind::Sum);
  auto with = [&](const auto &rows, const auto &columns, bool transposed) {
    TensorFactors factors = batch;
    factors.push_back(transposed ? columns : rows);
    factors.push_back(transposed ? rows : columns);
    return factors;
  };
  return rule.operand(with(m, k, getTransposeLhs()))
      .operand(with(k, n, getTransposeRhs()))
      .result(with(m, n, false))
      .linear({0, 1})
      .take();
}
