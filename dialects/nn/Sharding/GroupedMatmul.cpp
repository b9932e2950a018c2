//===- GroupedMatmul.cpp - Matmuls of groups of rows ----------------------===//
#include "dialects/nn/Ops/GroupedMatmul.h"
#include "dialects/nn/Sharding/Rules.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

/// Whether the rows of an op are in groups. Then rows and groups stay whole, since the end of a
/// group counts rows of all ranks. Otherwise each row has the number of its expert: axes may split
/// the rows, and the matrices into parts of contiguous experts.
template <typename OpT> static constexpr bool kInGroups = false;
template <> constexpr bool kInGroups<GroupedMatmulOp> = true;
template <> constexpr bool kInGroups<GroupedMatmulGradOp> = true;

/// [s, k] x [e, k, n] -> [s, n]: partial where k or e is split.
template <typename OpT> static ShardingRule rowsRule(OpT op) {
  constexpr bool inGroups = kInGroups<OpT>;
  RuleBuilder rule;
  ArrayRef<int64_t> lhs = shapeOf(op.getLhs());
  int64_t count = shapeOf(op.getRhs())[0];
  auto rows = rule.dim(lhs[0], inGroups ? FactorKind::Whole : FactorKind::Parallel);
  auto matrices = inGroups ? rule.dim(count, FactorKind::Whole)
                           : rule.contiguous(rule.dim(count, FactorKind::Sum));
  auto n = rule.dim(shapeOf(op.getResult())[1]);
  auto k = rule.dim(lhs[1], FactorKind::Sum);
  return rule.operand({rows, k})
      .operand(op.getTransposeRhs() ? TensorFactors{matrices, n, k} : TensorFactors{matrices, k, n})
      .operand({inGroups ? matrices : rows})
      .result({rows, n})
      .linear({0, 1})
      .take();
}

/// [s, k] x [s, n] -> [e, k, n]: partial where s is split.
template <typename OpT> static ShardingRule matricesRule(OpT op) {
  constexpr bool inGroups = kInGroups<OpT>;
  RuleBuilder rule;
  ArrayRef<int64_t> lhs = shapeOf(op.getLhs());
  int64_t count = shapeOf(op.getResult())[0];
  auto rows = rule.dim(lhs[0], inGroups ? FactorKind::Whole : FactorKind::Sum);
  auto matrices = inGroups ? rule.dim(count, FactorKind::Whole) : rule.contiguous(rule.dim(count));
  auto k = rule.dim(lhs[1]), n = rule.dim(shapeOf(op.getRhs())[1]);
  return rule.operand({rows, k})
      .operand({rows, n})
      .operand({inGroups ? matrices : rows})
      .result({matrices, k, n})
      .linear({0, 1})
      .take();
}

ShardingRule GroupedMatmulOp::getShardingRule() { return rowsRule(*this); }
ShardingRule GroupedMatmulGradOp::getShardingRule() { return matricesRule(*this); }
ShardingRule ExpertMatmulOp::getShardingRule() { return rowsRule(*this); }
ShardingRule ExpertMatmulGradOp::getShardingRule() { return matricesRule(*this); }

/// Builds the numbers of the rows' experts among those of this rank.
static Value localExperts(OpBuilder &builder, Location loc, Value experts,
                          ArrayRef<int64_t> factors, const LocalForm &local, int64_t count) {
  ArrayRef<SplitAxis> axes;
  if (!factors.empty())
    axes = local.axes[factors[0]];
  return localIndices(builder, loc, experts, axes, count);
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

FailureOr<SmallVector<Value>> ExpertMatmulGradOp::partition(OpBuilder &builder,
                                                            const LocalForm &local) {
  auto type = cast<RankedTensorType>(local.types[0]);
  Value experts = localExperts(builder, getLoc(), local.operands[2],
                               getShardingRule().results[0][0], local, type.getDimSize(0));
  return SmallVector<Value>{ExpertMatmulGradOp::create(builder, getLoc(), type, local.operands[0],
                                                       local.operands[1], experts)};
}
