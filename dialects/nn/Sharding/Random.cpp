//===- Random.cpp - Random numbers of a slice ------------------------------===//
#include "dialects/nn/Ops/Random.h"
#include "dialects/nn/Sharding/Rules.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

ShardingRule DropoutOp::getShardingRule() {
  RuleBuilder rule;
  TensorFactors dims = rule.dims(shapeOf(getInput()));
  rule.operand(dims);
  for (unsigned i = 1; i < getNumOperands(); ++i)
    rule.operand({});
  return rule.result(dims).linear({0}, true).take();
}

ShardingRule UniformOp::getShardingRule() {
  RuleBuilder rule;
  for (unsigned i = 0; i < getNumOperands(); ++i)
    rule.operand({});
  return rule.result(rule.dims(shapeOf(getResult()))).take();
}

/// Returns the number of a slice's first element in the whole; null if that is 0.
template <typename OpT> static Value offsetOf(OpT op, OpBuilder &builder, const LocalForm &local) {
  auto type = cast<RankedTensorType>(local.types[0]);
  auto scalar = RankedTensorType::get({}, builder.getI64Type());
  Value offset;
  int64_t stride = 1;
  ShardingRule rule = op.getShardingRule();
  for (int64_t d = type.getRank() - 1; d >= 0; --d) {
    for (int64_t factor : rule.results[0][d]) {
      if (local.axes[factor].empty())
        continue;
      Value begin = pieceOffset(builder, op.getLoc(), local.axes[factor],
                                type.getDimSize(d) * stride, scalar);
      offset = addOffset(builder, op.getLoc(), offset, begin);
    }
    stride *= shapeOf(op.getResult())[d];
  }
  return offset;
}

/// A rank draws random numbers for its own elements, by their numbers in the whole.
FailureOr<SmallVector<Value>> DropoutOp::partition(OpBuilder &builder, const LocalForm &local) {
  if (getGlobalShape())
    return emitOpError("is a local form already"), failure();
  return SmallVector<Value>{DropoutOp::create(
      builder, getLoc(), local.types[0], local.operands[0], local.operands[1], local.operands[2],
      local.operands[3], offsetOf(*this, builder, local), getRatioAttr(), getIdAttr(),
      builder.getDenseI64ArrayAttr(shapeOf(getInput())))};
}

FailureOr<SmallVector<Value>> UniformOp::partition(OpBuilder &builder, const LocalForm &local) {
  if (getGlobalShape())
    return emitOpError("is a local form already"), failure();
  return SmallVector<Value>{UniformOp::create(builder, getLoc(), local.types[0], local.operands[0],
                                              local.operands[1], local.operands[2],
                                              offsetOf(*this, builder, local), getIdAttr(),
                                              builder.getDenseI64ArrayAttr(shapeOf(getResult())))};
}
