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

/// A rank draws random numbers for its own elements, by their numbers in the whole.
FailureOr<SmallVector<Value>> DropoutOp::partition(OpBuilder &builder, const LocalForm &local) {
  if (getGlobalShape())
    return emitOpError("is a local form already"), failure();
  auto type = cast<RankedTensorType>(local.types[0]);
  auto scalar = RankedTensorType::get({}, builder.getI64Type());
  Value offset;
  int64_t stride = 1;
  ShardingRule rule = getShardingRule();
  for (int64_t d = type.getRank() - 1; d >= 0; --d) {
    for (int64_t factor : rule.results[0][d]) {
      if (local.axes[factor].empty())
        continue;
      Value begin =
          pieceOffset(builder, getLoc(), local.axes[factor], type.getDimSize(d) * stride, scalar);
      offset = addOffset(builder, getLoc(), offset, begin);
    }
    stride *= shapeOf(getInput())[d];
  }
  return SmallVector<Value>{
      DropoutOp::create(builder, getLoc(), type, local.operands[0], local.operands[1],
                        local.operands[2], local.operands[3], offset, getRatioAttr(), getIdAttr(),
                        builder.getDenseI64ArrayAttr(shapeOf(getInput())))};
}
