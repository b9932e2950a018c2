//===- Sdpa.h - Attention as libraries compute it -------------------------===//
#ifndef SHALE_NN_OPS_SDPA_H
#define SHALE_NN_OPS_SDPA_H

#include "dialects/nn/AttentionSizes.h"
#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Sdpa.h.inc"

namespace shale::nn {
/// Adds the ops of Sdpa.td to the dialect.
void registerSdpaOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_SDPA_H
