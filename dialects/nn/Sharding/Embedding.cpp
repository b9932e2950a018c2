//===- Embedding.cpp - Tables split over rows or columns ------------------===//
#include "dialects/nn/Ops/Embedding.h"
#include "dialects/nn/Sharding/Rules.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

ShardingRule EmbeddingOp::getShardingRule() {
  RuleBuilder rule;
  TensorFactors indices = rule.dims(shapeOf(getIndices()));
  auto v = rule.contiguous(rule.dim(shapeOf(getTable())[0], FactorKind::Sum));
  auto d = rule.dim(shapeOf(getTable())[1]);
  TensorFactors result = indices;
  result.push_back(d);
  return rule.operand({v, d}).operand(indices).result(result).linear({0}).take();
}

FailureOr<SmallVector<Value>> EmbeddingOp::partition(OpBuilder &builder, const LocalForm &local) {
  auto rows = getShardingRule().operands[0][0];
  ArrayRef<SplitAxis> axes;
  if (!rows.empty())
    axes = local.axes[rows[0]];
  Value indices =
      localIndices(builder, getLoc(), local.operands[1], axes, shapeOf(local.operands[0])[0]);
  return SmallVector<Value>{EmbeddingOp::create(builder, getLoc(), local.types[0],
                                                local.operands[0], indices, IntegerAttr())};
}

ShardingRule EmbeddingGradOp::getShardingRule() {
  RuleBuilder rule;
  TensorFactors indices = rule.dims(shapeOf(getIndices()), FactorKind::Sum);
  auto v = rule.contiguous(rule.dim(shapeOf(getResult())[0]));
  auto d = rule.dim(shapeOf(getResult())[1]);
  TensorFactors grad = indices;
  grad.push_back(d);
  return rule.operand(indices).operand(grad).result({v, d}).linear({1}).take();
}

FailureOr<SmallVector<Value>> EmbeddingGradOp::partition(OpBuilder &builder,
                                                         const LocalForm &local) {
  auto rows = getShardingRule().results[0][0];
  ArrayRef<SplitAxis> axes;
  if (!rows.empty())
    axes = local.axes[rows[0]];
  auto type = cast<RankedTensorType>(local.types[0]);
  Value indices = localIndices(builder, getLoc(), local.operands[0], axes, type.getDimSize(0));
  return SmallVector<Value>{
      EmbeddingGradOp::create(builder, getLoc(), type, indices, local.operands[1])};
}
