//===- Cast.h - Conversions -----------------------------------------------===//
#ifndef SHALE_NN_OPS_CAST_H
#define SHALE_NN_OPS_CAST_H

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Cast.h.inc"

namespace shale::nn {
/// Adds the ops of Cast.td to the dialect.
void registerCastOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_CAST_H
