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

/// The number of equal parts of rows and of matrices that belong together.
template <typename OpT> static int64_t partsOf(OpT op) { return op.getParts(); }
template <> int64_t partsOf(GroupedMatmulOp) { return 1; }
template <> int64_t partsOf(GroupedMatmulGradOp) { return 1; }

/// The factors of rows and of matrices.
struct RowFactors {
  SmallVector<int64_t, 2> rows, matrices;
};

/// Builds the factors of `rows` rows and `count` matrices: the part of both, then what is in a
/// part.
template <typename OpT>
static RowFactors rowFactors(OpT op, RuleBuilder &rule, int64_t rows, FactorKind rowKind,
                             int64_t count, FactorKind matrixKind) {
  if (kInGroups<OpT>)
    return {rule.dim(rows, FactorKind::Whole), rule.dim(count, FactorKind::Whole)};
  int64_t parts = partsOf(op);
  SmallVector<int64_t, 2> part = rule.contiguous(rule.dim(parts));
  RowFactors factors{part, part};
  llvm::append_range(factors.rows, rule.dim(rows / parts, rowKind));
  llvm::append_range(factors.matrices, rule.contiguous(rule.dim(count / parts, matrixKind)));
  return factors;
}

/// [s, k] x [e, k, n] -> [s, n]: partial where k or e is split.
template <typename OpT> static ShardingRule rowsRule(OpT op) {
  RuleBuilder rule;
  ArrayRef<int64_t> lhs = shapeOf(op.getLhs());
  auto [rows, matrices] =
      rowFactors(op, rule, lhs[0], FactorKind::Parallel, shapeOf(op.getRhs())[0], FactorKind::Sum);
  auto n = rule.dim(shapeOf(op.getResult())[1]);
  auto k = rule.dim(lhs[1], FactorKind::Sum);
  return rule.operand({rows, k})
      .operand(op.getTransposeRhs() ? TensorFactors{matrices, n, k} : TensorFactors{matrices, k, n})
      .operand({kInGroups<OpT> ? matrices : rows})
      .result({rows, n})
      .linear({0, 1})
      .take();
}

/// [s, k] x [s, n] -> [e, k, n]: partial where s is split.
template <typename OpT> static ShardingRule matricesRule(OpT op) {
  RuleBuilder rule;
  ArrayRef<int64_t> lhs = shapeOf(op.getLhs());
  auto [rows, matrices] = rowFactors(op, rule, lhs[0], FactorKind::Sum, shapeOf(op.getResult())[0],
                                     FactorKind::Parallel);
  auto k = rule.dim(lhs[1]), n = rule.dim(shapeOf(op.getRhs())[1]);
  return rule.operand({rows, k})
      .operand({rows, n})
      .operand({kInGroups<OpT> ? matrices : rows})
      .result({matrices, k, n})
      .linear({0, 1})
      .take();
}

ShardingRule GroupedMatmulOp::getShardingRule() { return rowsRule(*this); }
ShardingRule GroupedMatmulGradOp::getShardingRule() { return matricesRule(*this); }
ShardingRule ExpertMatmulOp::getShardingRule() { return rowsRule(*this); }
ShardingRule ExpertMatmulGradOp::getShardingRule() { return matricesRule(*this); }

/// Builds the numbers of the rows' experts among those of this rank, of which there are `count`.
/// `matrices`: the factors of the number of matrices.
static Value localExperts(OpBuilder &builder, Location loc, ArrayRef<int64_t> matrices,
                          const LocalForm &local, int64_t count) {
  SmallVector<SplitAxis> axes;
  for (int64_t factor : matrices)
    llvm::append_range(axes, local.axes[factor]);
  return localIndices(builder, loc, local.operands[2], axes, count);
}

/// Returns how many parts a rank has.
static int64_t localParts(int64_t parts, ArrayRef<int64_t> matrices, const LocalForm &local) {
  return parts > 1 ? parts / pieces(local.axes[matrices[0]]) : 1;
}

/// Returns of how many matrices a rank's are some; null if it has all.
static IntegerAttr localOf(OpBuilder &builder, IntegerAttr of, int64_t count, int64_t local) {
  return of || local == count ? of : builder.getI64IntegerAttr(count);
}

FailureOr<SmallVector<Value>> ExpertMatmulOp::partition(OpBuilder &builder,
                                                        const LocalForm &local) {
  SmallVector<int64_t, 2> matrices = getShardingRule().operands[1][0];
  int64_t count = shapeOf(local.operands[1])[0];
  Value experts = localExperts(builder, getLoc(), matrices, local, count);
  return SmallVector<Value>{ExpertMatmulOp::create(
      builder, getLoc(), local.types[0], local.operands[0], local.operands[1], experts,
      getTransposeRhs(), localParts(getParts(), matrices, local),
      localOf(builder, getOfAttr(), shapeOf(getRhs())[0], count))};
}

FailureOr<SmallVector<Value>> ExpertMatmulGradOp::partition(OpBuilder &builder,
                                                            const LocalForm &local) {
  auto type = cast<RankedTensorType>(local.types[0]);
  SmallVector<int64_t, 2> matrices = getShardingRule().results[0][0];
  int64_t count = type.getDimSize(0);
  Value experts = localExperts(builder, getLoc(), matrices, local, count);
  return SmallVector<Value>{
      ExpertMatmulGradOp::create(builder, getLoc(), type, local.operands[0], local.operands[1],
                                 experts, localParts(getParts(), matrices, local),
                                 localOf(builder, getOfAttr(), shapeOf(getResult())[0], count))};
}
