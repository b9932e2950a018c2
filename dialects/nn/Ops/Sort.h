//===- Sort.h - Orders of elements ----------------------------------------===//
#ifndef SHALE_NN_OPS_SORT_H
#define SHALE_NN_OPS_SORT_H

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Sort.h.inc"

namespace shale::nn {
/// Sorted positions per piece that nn.sorted_embedding_grad takes as one sum.
inline constexpr int64_t kSortedPiece = 32;

/// Adds the ops of Sort.td to the dialect.
void registerSortOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_SORT_H
