//===- Segments.h - Reductions and broadcasts by segments -----------------===//
#ifndef SHALE_NN_OPS_SEGMENTS_H
#define SHALE_NN_OPS_SEGMENTS_H

#include "dialects/nn/NN.h"

namespace shale::nn {
/// Trait of an op whose result is written to memory: no op reads an element of it in the kernel
/// that computes it.
template <typename Op> struct StoredResult : mlir::OpTrait::TraitBase<Op, StoredResult> {};
} // namespace shale::nn

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Segments.h.inc"

namespace shale::nn {
/// Adds the ops of Segments.td to the dialect.
void registerSegmentsOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_SEGMENTS_H
