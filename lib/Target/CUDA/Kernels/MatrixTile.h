//===- MatrixTile.h - A block's part of a matmul -------------------------===//
#ifndef SHALE_TARGET_CUDA_KERNELS_MATRIXTILE_H
#define SHALE_TARGET_CUDA_KERNELS_MATRIXTILE_H

#include "lib/Target/CUDA/Kernels/Threads.h"

namespace shale::cuda {

/// The part of a matmul that a block computes, and the threads that do.
struct TileSize {
  int64_t rows, columns, threads;
};

/// A factor of a output. A line has the terms of one row of the output, or of one column.
struct TileFactor {
  mlir::Value memref;
  mlir::Value start; ///< where its first element is
  int64_t lines;     ///< that memory has from there on; at least 1
  int64_t pitch;     ///< elements per row of memory
  bool keepsLines;   ///< whether a row of memory is a line; if not, a column is one
  mlir::Value first; ///< the tile's first line
};

/// The terms of sums, [begin, end) of each line. `whole`: all lines have `most` terms, from 0 on.
struct Terms {
  mlir::Value begin, end;
  int64_t most;
  bool whole;
};

/// The matrix that the tile is a part of, in row-major order with `columns` columns. The tile
/// covers rows [firstRow, endRow), at most its height, and columns from firstColumn on, at most its
/// width.
struct Output {
  mlir::Value memref;
  mlir::Value start;
  int64_t columns;
  mlir::Value firstRow, endRow, firstColumn;
  mlir::Type element; ///< f32, or a 16-bit float, to which sums are rounded
};

/// Returns the largest power of two that divides a size and is at most `most`: neighbours that one
/// access may load or store.
int64_t accessWidth(int64_t size, int64_t most);

/// Emits the matmul of two factors of `element`, by all threads of the block: sums in f32, in an
/// order that depends on the sizes alone. Lines beyond those that memory has are not read.
class MatrixTile {
public:
  virtual ~MatrixTile() = default;
  /// Returns the tile for a matmul of about so many rows and columns.
  static TileSize sizeOf(mlir::Type element, int64_t rows, int64_t columns);
  static std::unique_ptr<MatrixTile> create(Threads &t, mlir::Type element, TileSize size);

  void emit(const TileFactor &lhs, const TileFactor &rhs, const Terms &terms, const Output &output);

protected:
  MatrixTile(Threads &t, TileSize size, int64_t depth) : t(t), size(size), depth(depth) {}

  /// Loads the thread's part of a factor for the terms from `term` on.
  virtual Threads::Values load(const TileFactor &factor, int64_t lines, const Terms &terms,
                               mlir::Value term) = 0;
  /// Stores what load() returned into shared memory, from `at` on.
  virtual void stage(const TileFactor &factor, int64_t lines, mlir::ValueRange loaded,
                     mlir::Value at) = 0;
  /// Returns the elements of shared memory that a factor takes, and their type.
  virtual int64_t stagedElements(const TileFactor &factor, int64_t lines) const = 0;
  virtual mlir::Type stagedType() const = 0;
  virtual int64_t sumsPerThread() const = 0;
  /// Computes what does not depend on the terms.
  virtual void prepare(const TileFactor &lhs, const TileFactor &rhs) = 0;
  /// Adds the products of the factors at these places of shared memory to the thread's sums.
  virtual Threads::Values multiply(const TileFactor &lhs, mlir::Value left, const TileFactor &rhs,
                                   mlir::Value right, mlir::ValueRange sums) = 0;
  virtual void store(const Output &output, mlir::ValueRange sums) = 0;

  mlir::Value div(mlir::Value x, int64_t y);
  mlir::Value rem(mlir::Value x, int64_t y);
  mlir::Value plus(mlir::Value x, int64_t y);
  mlir::Value times(mlir::Value x, int64_t y);
  mlir::Value xorOf(mlir::Value x, mlir::Value y);
  /// Loads `width` elements of memory, at most one access, of a line and a term of which one is
  /// the first of neighbours. Zeros if the term does not exist; any number if the line does not.
  mlir::Value loadNeighbours(const TileFactor &factor, const Terms &terms, mlir::Value line,
                             mlir::Value term, int64_t width);
  mlir::Value loadShared(mlir::Value at, int64_t width);
  void storeShared(mlir::Value value, mlir::Value at);
  /// Stores neighbouring columns of the output, from `column` of the tile on.
  void storeColumns(const Output &output, mlir::Value row, mlir::Value column,
                    mlir::ValueRange sums);

  Threads &t;
  TileSize size;
  int64_t depth; ///< terms per step
  mlir::Value shared;
};

std::unique_ptr<MatrixTile> createPlainTile(Threads &t, TileSize size);
std::unique_ptr<MatrixTile> createTensorTile(Threads &t, mlir::Type element, TileSize size);

} // namespace shale::cuda

#endif // SHALE_TARGET_CUDA_KERNELS_MATRIXTILE_H
