//===- QuantizedBlocks.h - Kernels of blocks of 8-bit integers ------------===//
//
// The words in which quantized collectives send blocks of floats, as dist.unit_gather describes
// them.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PASSES_FUSION_QUANTIZEDBLOCKS_H
#define SHALE_PASSES_FUSION_QUANTIZEDBLOCKS_H

#include "dialects/dist/Dist.h"
#include "dialects/nn/Decompose/Composer.h"
#include "dialects/nn/Ops/Cluster.h"

namespace shale {

/// Returns the words of whole blocks of elements.
inline int64_t wordsOf(int64_t elements, dist::Encoding encoding) {
  dist::EncodedBlock block = dist::blockOf(encoding);
  return elements / block.elements * block.words;
}

/// Builds a kernel of one result in front of the builder's place, with phase and scope of `op`.
/// `body` returns the result, which may take the place of operand `alias`.
nn::ClusterOp buildKernel(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange inputs,
                          mlir::Type result,
                          llvm::function_ref<mlir::Value(nn::Composer &, mlir::ValueRange)> body,
                          int64_t alias = -1);

/// Returns the words of 1-D floats in whole blocks, as a 1-D tensor.
mlir::Value quantizeBlocks(nn::Composer &c, mlir::Value floats, dist::Encoding encoding);

/// Returns the 1-D floats of 1-D words.
mlir::Value dequantizeBlocks(nn::Composer &c, mlir::Value words, mlir::Type element,
                             dist::Encoding encoding);

} // namespace shale

#endif // SHALE_PASSES_FUSION_QUANTIZEDBLOCKS_H
