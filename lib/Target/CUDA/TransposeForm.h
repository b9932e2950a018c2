//===- TransposeForm.h - Kernels that transpose matrices ------------------===//
#ifndef SHALE_TARGET_CUDA_TRANSPOSEFORM_H
#define SHALE_TARGET_CUDA_TRANSPOSEFORM_H

#include "dialects/nn/Ops/Data.h"
#include "lib/Codegen/RowForm.h"

namespace shale::cuda {

/// A flat kernel with transpositions of matrices of one size, rows x columns. A value with all
/// elements has either these matrices or transposed ones.
struct TransposeForm {
  MatrixTranspose sizes;
  /// The ops that transpose. None reads the result of another.
  llvm::SmallVector<nn::TransposeOp, 1> ops;
  /// Bytes of an element of their operands in memory, the same for all.
  int64_t bytes = 1;
  /// The outputs with transposed matrices.
  llvm::DenseSet<mlir::Value> transposed;
  /// Neighbours that a thread takes: of a row, as many as the widest input or output with rows has
  /// in 16 bytes, and of a transposed row, as many as the operands of the ops have.
  int64_t width = 1, transposedWidth = 1;

  /// Words of a row of shared memory, and threads side by side along the columns of a tile.
  static constexpr int64_t kTileWords = 32, kTileThreads = 8;
  static constexpr int64_t kThreads = kTileWords * kTileThreads;

  /// Elements per word of shared memory: neighbours of a transposed row.
  int64_t perWord() const { return bytes < 4 ? 4 / bytes : 1; }
  /// Sizes of the part of a matrix that a block transposes.
  int64_t tileRows() const { return kTileWords * perWord(); }
  int64_t tileColumns() const { return kTileThreads * width; }
  int64_t blocks() const;
};

/// Returns the form of a kernel that transposes matrices through shared memory. Returns nothing if
/// there is no transposition, if the order of elements of some value is neither of the two, if more
/// than half of the tiles would be empty, or if rows of tiles do not fill a sector of memory.
std::optional<TransposeForm> matchTransposes(const RowForm &form, mlir::Region &body);

} // namespace shale::cuda

#endif // SHALE_TARGET_CUDA_TRANSPOSEFORM_H
