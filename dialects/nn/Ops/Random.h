//===- Random.h - Ops that draw random numbers ----------------------------===//
#ifndef SHALE_NN_OPS_RANDOM_H
#define SHALE_NN_OPS_RANDOM_H

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Random.h.inc"

namespace shale::nn {
/// Adds the ops of Random.td to the dialect.
void registerRandomOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_RANDOM_H
