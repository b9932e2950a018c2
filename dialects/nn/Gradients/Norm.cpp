//===- Norm.cpp - Gradients of normalizations -----------------------------===//
#include "dialects/nn/Ops/Norm.h"
#include "dialects/nn/Gradients/Build.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

/// Returns the result of a softmax. If the graph tests it for NaN, returns it with NaN replaced by
/// 0: the graph then replaces NaN by values that do not depend on the softmax.
static Value withoutNan(Build &b, Value y) {
  for (Operation *user : y.getUsers())
    if (auto isNan = dyn_cast<IsNanOp>(user))
      return b.select(isNan.getResult(), b.constant(y, 0), y);
  return y;
}

// y (g - sum(y g)) for each row
LogicalResult SoftmaxOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                       ArrayRef<bool>, SmallVectorImpl<Value> &operandGrads) {
  Build b{builder, getLoc()};
  Value g = resultGrads[0], y = withoutNan(b, getResult());
  RankedTensorType type = Build::type(y);
  SmallVector<int64_t> rows;
  for (int64_t d = 0; d + 1 < type.getRank(); ++d)
    rows.push_back(d);
  Value sum = b.reduce(ReduceKind::Sum, b.mul(y, g), type.getRank() - 1);
  operandGrads[0] = b.mul(y, b.sub(g, b.broadcast(sum, type, rows)));
  return success();
}

/// Checks that results that are kept for the gradient have no gradient themselves.
static LogicalResult verifyNoGradient(Operation *op, ArrayRef<Value> grads) {
  for (auto [i, grad] : llvm::enumerate(grads))
    if (grad)
      return op->emitOpError("has no gradient for result ") << i + 1;
  return success();
}

LogicalResult LayerNormOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                         ArrayRef<bool>, SmallVectorImpl<Value> &operandGrads) {
  if (failed(verifyNoGradient(*this, resultGrads.drop_front())))
    return failure();
  if (!resultGrads[0])
    return success();
  auto grads = LayerNormGradOp::create(builder, getLoc(), getInput().getType(),
                                       accumulatorType(getScale().getType()),
                                       accumulatorType(getBias().getType()), getInput(), getScale(),
                                       getMean(), getRstd(), resultGrads[0]);
  Build b{builder, getLoc()};
  operandGrads[0] = grads.getInputGrad();
  operandGrads[1] = b.cast(grads.getScaleGrad(), Build::type(getScale()).getElementType());
  operandGrads[2] = b.cast(grads.getBiasGrad(), Build::type(getBias()).getElementType());
  return success();
}

LogicalResult RmsNormOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                       ArrayRef<bool>, SmallVectorImpl<Value> &operandGrads) {
  if (failed(verifyNoGradient(*this, resultGrads.drop_front())))
    return failure();
  if (!resultGrads[0])
    return success();
  auto grads = RmsNormGradOp::create(builder, getLoc(), getInput().getType(),
                                     accumulatorType(getScale().getType()), getInput(), getScale(),
                                     getRstd(), resultGrads[0]);
  operandGrads[0] = grads.getInputGrad();
  operandGrads[1] =
      Build{builder, getLoc()}.cast(grads.getScaleGrad(), Build::type(getScale()).getElementType());
  return success();
}

LogicalResult RunningStatisticOp::buildGradient(OpBuilder &, ArrayRef<Value> resultGrads,
                                                ArrayRef<bool>,
                                                SmallVectorImpl<Value> &operandGrads) {
  operandGrads[0] = resultGrads[0];
  return success();
}
