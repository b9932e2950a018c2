//===- Norm.h - Normalizations over the last dimension --------------------===//
#ifndef SHALE_NN_OPS_NORM_H
#define SHALE_NN_OPS_NORM_H

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Norm.h.inc"

namespace shale::nn {
/// Adds the ops of Norm.td to the dialect.
void registerNormOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_NORM_H
