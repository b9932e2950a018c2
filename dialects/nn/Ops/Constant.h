//===- Constant.h - Values without operands -------------------------------===//
#ifndef SHALE_NN_OPS_CONSTANT_H
#define SHALE_NN_OPS_CONSTANT_H

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Constant.h.inc"

namespace shale::nn {
/// Returns a constant with size 1 along every dimension in which its elements do not change.
mlir::DenseElementsAttr reduceRepeated(mlir::DenseElementsAttr attr);

/// Adds the ops of Constant.td to the dialect.
void registerConstantOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_CONSTANT_H
