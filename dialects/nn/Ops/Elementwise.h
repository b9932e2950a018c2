//===- Elementwise.h - Elementwise ops ------------------------------------===//
#ifndef SHALE_NN_OPS_ELEMENTWISE_H
#define SHALE_NN_OPS_ELEMENTWISE_H

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Elementwise.h.inc"

namespace shale::nn {
/// Adds the ops of Elementwise.td to the dialect.
void registerElementwiseOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_ELEMENTWISE_H
