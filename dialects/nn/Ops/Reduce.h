//===- Reduce.h - Reductions and running sums -----------------------------===//
#ifndef SHALE_NN_OPS_REDUCE_H
#define SHALE_NN_OPS_REDUCE_H

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Reduce.h.inc"

namespace shale::nn {
/// Adds the ops of Reduce.td to the dialect.
void registerReduceOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_REDUCE_H
