//===- Matmul.h - Matmuls -------------------------------------------------===//
#ifndef SHALE_NN_OPS_MATMUL_H
#define SHALE_NN_OPS_MATMUL_H

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Matmul.h.inc"

namespace shale::nn {
/// Adds the ops of Matmul.td to the dialect.
void registerMatmulOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_MATMUL_H
