//===- Attention.h - Attention and rotary positions -----------------------===//
#ifndef SHALE_NN_OPS_ATTENTION_H
#define SHALE_NN_OPS_ATTENTION_H

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Attention.h.inc"

namespace shale::nn {
/// Adds the ops of Attention.td to the dialect.
void registerAttentionOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_ATTENTION_H
