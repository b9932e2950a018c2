//===- BlockExchange.h - Values that threads of a block exchange ----------===//
#ifndef SHALE_TARGET_CUDA_BLOCKEXCHANGE_H
#define SHALE_TARGET_CUDA_BLOCKEXCHANGE_H

#include "dialects/nn/Ops/Reduce.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace shale::cuda {

/// Emits exchanges by shuffles and by shared memory. All threads of a block must reach them.
class BlockExchange {
public:
  BlockExchange(mlir::OpBuilder &builder, mlir::gpu::GPUFuncOp function)
      : b(builder), function(function), loc(function.getLoc()) {}

  /// Returns memory of the block for elements of a type, which begins at a multiple of `alignment`
  /// bytes; 0: of their size.
  mlir::Value makeShared(int64_t count, mlir::Type element, int64_t alignment = 0);
  void store(mlir::Value value, mlir::Value shared, mlir::Value at);
  mlir::Value load(mlir::Value shared, mlir::Value at, mlir::Type type);

  /// Reduces a power of two of values, by halves.
  mlir::Value reduceHalves(nn::ReduceKind kind, llvm::ArrayRef<mlir::Value> values);
  /// A thread's place among those of a block that reduce rows.
  struct RowPlace {
    int64_t threads;         ///< of a row: a warp, or several
    int64_t rows;            ///< side by side
    mlir::Value thread, row; ///< its number in the block and that of its row; row: null if one
  };
  /// Reduces the values of a row's threads. All get the result: addition commutes, so that both
  /// partners of a shuffle compute the same bits. In a loop `turn` is 0 and 1 in turn, which
  /// alternates two buffers: the barrier of the next turn is between the loads from a buffer and
  /// the next stores to it.
  mlir::Value reduceRow(nn::ReduceKind kind, mlir::Value value, const RowPlace &place,
                        mlir::Value turn);

private:
  mlir::Value index(int64_t value);
  /// Returns the value of the thread whose number differs in the bits of `offset`.
  mlir::Value shuffle(mlir::Value value, int64_t offset);

  mlir::OpBuilder &b;
  mlir::gpu::GPUFuncOp function;
  mlir::Location loc;
};

} // namespace shale::cuda

#endif // SHALE_TARGET_CUDA_BLOCKEXCHANGE_H
