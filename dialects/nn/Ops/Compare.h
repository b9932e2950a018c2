//===- Compare.h - Comparisons and choice ---------------------------------===//
#ifndef SHALE_NN_OPS_COMPARE_H
#define SHALE_NN_OPS_COMPARE_H

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Compare.h.inc"

namespace shale::nn {
/// Adds the ops of Compare.td to the dialect.
void registerCompareOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_COMPARE_H
