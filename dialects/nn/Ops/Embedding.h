//===- Embedding.h - Rows of a table --------------------------------------===//
#ifndef SHALE_NN_OPS_EMBEDDING_H
#define SHALE_NN_OPS_EMBEDDING_H

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Embedding.h.inc"

namespace shale::nn {
/// Adds the ops of Embedding.td to the dialect.
void registerEmbeddingOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_EMBEDDING_H
