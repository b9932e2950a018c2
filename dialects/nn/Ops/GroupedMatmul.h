//===- GroupedMatmul.h - Matmuls of groups of rows ------------------------===//
#ifndef SHALE_NN_OPS_GROUPEDMATMUL_H
#define SHALE_NN_OPS_GROUPEDMATMUL_H

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/GroupedMatmul.h.inc"

namespace shale::nn {
/// Adds the ops of GroupedMatmul.td to the dialect.
void registerGroupedMatmulOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_GROUPEDMATMUL_H
