//===- Data.h - Data movement ---------------------------------------------===//
#ifndef SHALE_NN_OPS_DATA_H
#define SHALE_NN_OPS_DATA_H

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Data.h.inc"

namespace shale::nn {
/// A slice that begins at a multiple of this many bytes is a view: buffers are aligned so.
inline constexpr int64_t kViewAlignment = 64;

/// Adds the ops of Data.td to the dialect.
void registerDataOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_DATA_H
