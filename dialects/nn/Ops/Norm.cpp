//===- Norm.cpp - Normalizations over the last dimension ------------------===//
#include "dialects/nn/Ops/Norm.h"
#include <cmath>

using namespace mlir;
using namespace shale::nn;

/// Checks that `rank >= 1`, that `column` is 1-D over x's last dimension and
/// that `row` has x's other dimensions.
static LogicalResult verifyNorm(Operation *op, Type input, Type column, Type row) {
  auto x = cast<RankedTensorType>(input);
  if (x.getRank() < 1) // *_norm_c1
    return op->emitOpError() << "input must have rank 1 or more; got " << x;
  auto columnType = RankedTensorType::get({x.getShape().back()}, x.getElementType());
  if (shale::accumulatorType(column) != shale::accumulatorType(columnType)) // *_norm_c2
    return op->emitOpError() << "scale and bias must be " << columnType << "; got " << column;
  auto rowType = RankedTensorType::get(x.getShape().drop_back(), x.getElementType());
  if (row != rowType && row != shale::accumulatorType(rowType)) // *_norm_c3
    return op->emitOpError() << "statistics must be " << rowType << "; got " << row;
  return success();
}

static LogicalResult verifyEpsilon(Operation *op, const APFloat &epsilon) {
  double value = epsilon.convertToDouble();
  if (!std::isfinite(value) || value < 0) // *_norm_c4
    return op->emitOpError() << "epsilon must be finite and not negative; got " << value;
  return success();
}

LogicalResult SoftmaxOp::verify() {
  if (cast<RankedTensorType>(getType()).getRank() < 1) // softmax_c1
    return emitOpError() << "input must have rank 1 or more; got " << getType();
  return success();
}

LogicalResult LayerNormOp::verify() {
  if (failed(verifyNorm(*this, getInput().getType(), getScale().getType(), getMean().getType())))
    return failure();
  return verifyEpsilon(*this, getEpsilon());
}

LogicalResult LayerNormGradOp::verify() { // layer_norm_grad_c1
  return verifyNorm(*this, getInput().getType(), getScale().getType(), getMean().getType());
}

LogicalResult RmsNormOp::verify() {
  if (failed(verifyNorm(*this, getInput().getType(), getScale().getType(), getRstd().getType())))
    return failure();
  return verifyEpsilon(*this, getEpsilon());
}

LogicalResult RmsNormGradOp::verify() { // rms_norm_grad_c1
  return verifyNorm(*this, getInput().getType(), getScale().getType(), getRstd().getType());
}

LogicalResult RunningStatisticOp::verify() {
  double momentum = getMomentum().convertToDouble(), factor = getFactor().convertToDouble();
  if (!(momentum >= 0 && momentum <= 1) || !std::isfinite(factor) || factor <= 0)
    // running_statistic_c1
    return emitOpError() << "momentum must be in [0, 1] and factor finite and positive; got "
                         << momentum << " and " << factor;
  return success();
}

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Norm.cpp.inc"

void shale::nn::registerNormOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Norm.cpp.inc"
      >();
}
