//===- GroupedMatmul.cpp - Matmuls of groups of rows ----------------------===//
#include "dialects/nn/Ops/GroupedMatmul.h"
#include "dialects/nn/Sharding/Rules.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

// Rows and groups of grouped matmuls stay whole: where a group ends is a number of all rows. Rows
// with the number of their expert may be split, and so may the matrices.

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

/// Builds the numbers of the rows' experts among those of this rank.
static Value localExperts(OpBuilder &builder, Location loc, Value experts,
                          ArrayRef<int64_t> factors, const LocalForm &local, int64_t count) {
  ArrayRef<SplitAxis> axes;
  if (!factors.empty())
    axes = local.axes[factors[0]];
  return localIndices(builder, loc, experts, axes, count);
}

/// [s, k] x [e, k, n] -> [s, n]: partial where k or e is split.
ShardingRule ExpertMatmulOp::getShardingRule() {
  RuleBuilder rule;
  ArrayRef<int64_t> lhs = shapeOf(getLhs()), result = shapeOf(getResult());
  auto rows = rule.dim(lhs[0]);
  auto experts = rule.contiguous(rule.dim(shapeOf(getRhs())[0], FactorKind::Sum));
  auto n = rule.dim(result[1]);
  auto k = rule.dim(lhs[1], FactorKind::Sum);
  return rule.operand({rows, k})
      .operand(getTransposeRhs() ? TensorFactors{experts, n, k} : TensorFactors{experts, k, n})
      .operand({rows})
      .result({rows, n})
      .linear({0, 1})
      .take();
}

FailureOr<SmallVector<Value>> ExpertMatmulOp::partition(OpBuilder &builder,
                                                        const LocalForm &local) {
  Value experts =
      localExperts(builder, getLoc(), local.operands[2], getShardingRule().operands[1][0], local,
                   shapeOf(local.operands[1])[0]);
  return SmallVector<Value>{ExpertMatmulOp::create(builder, getLoc(), local.types[0],
                                                   local.operands[0], local.operands[1], experts,
                                                   getTransposeRhs())};
}

/// [s, k] x [s, n] -> [e, k, n]: partial where s is split.
ShardingRule ExpertMatmulGradOp::getShardingRule() {
  RuleBuilder rule;
  ArrayRef<int64_t> lhs = shapeOf(getLhs());
  auto rows = rule.dim(lhs[0], FactorKind::Sum);
  auto experts = rule.contiguous(rule.dim(shapeOf(getResult())[0]));
  auto k = rule.dim(lhs[1]), n = rule.dim(shapeOf(getRhs())[1]);
  return rule.operand({rows, k})
      .operand({rows, n})
      .operand({rows})
      .result({experts, k, n})
      .linear({0, 1})
      .take();
}

FailureOr<SmallVector<Value>> ExpertMatmulGradOp::partition(OpBuilder &builder,
                                                            const LocalForm &local) {
  auto type = cast<RankedTensorType>(local.types[0]);
  Value experts = localExperts(builder, getLoc(), local.operands[2],
                               getShardingRule().results[0][0], local, type.getDimSize(0));
  return SmallVector<Value>{ExpertMatmulGradOp::create(builder, getLoc(), type, local.operands[0],
                                                       local.operands[1], experts)};
}
