//===- RowChunks.h - The ops that compute a loss row by row ---------------===//
#ifndef SHALE_PASSES_MEMORY_ROWCHUNKS_H
#define SHALE_PASSES_MEMORY_ROWCHUNKS_H

#include "dialects/interfaces/Interfaces.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include <optional>
#include <string>

namespace shale {

/// How an operand or a result relates to the chunks of rows.
enum class RowPart {
  /// Every chunk reads the whole operand.
  Whole,
  /// Each chunk reads or makes one of equal parts. Parts of what other ops make or read are
  /// contiguous
  /// ranges.
  Chunk,
  /// The result is a sum over chunks.
  Term
};

/// An op that is computed once per chunk.
struct ChunkedOp {
  ShardingRule rule;
  /// For each factor of the rule, the number of parts into which it is split.
  llvm::SmallVector<int64_t> pieces;
  llvm::SmallVector<RowPart> operands, results;

  /// Returns a chunk's part of the type of a tensor with these factors.
  mlir::RankedTensorType localType(mlir::RankedTensorType type, const TensorFactors &factors) const;
};

/// The ops around a loss that work on matrices as large as its logits, split into chunks of rows,
/// and the ops between them. They follow from the ops' sharding rules, as if the chunks were ranks
/// of an axis that splits the logits' rows.
class RowChunks {
public:
  /// Collects the ops for `count` chunks, which must divide the number of rows. Returns why the
  /// loss cannot be computed so, or an empty string.
  std::string collect(RowLossOpInterface of, int64_t count);

  int64_t getCount() const { return count; }
  /// The ops, in their order in the block.
  const llvm::MapVector<mlir::Operation *, ChunkedOp> &getOps() const { return ops; }
  /// Other ops before the last of these that depend on their results, in order.
  llvm::ArrayRef<mlir::Operation *> getDependents() const { return dependents; }

private:
  bool areRanges(const ChunkedOp &op, const TensorFactors &tensor) const;
  std::optional<RowPart> enter(mlir::Value value, const TensorFactors &tensor, const ChunkedOp &op);
  std::string visit(mlir::Operation *op, mlir::Value split);
  std::string visitAround(mlir::Value value);
  std::optional<RowPart> partMadeOf(mlir::Value value) const;
  void sortOps();
  std::string visitBetween();
  std::string checkRanges() const;
  std::string findOrder();

  RowLossOpInterface loss;
  int64_t count = 1, least = 0;
  llvm::MapVector<mlir::Operation *, ChunkedOp> ops;
  llvm::SmallVector<mlir::Operation *> dependents;
  /// Large values that are split, in the order in which they were found.
  llvm::SetVector<mlir::Value> large;
  /// For each value that has parts: their number along each dimension.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<int64_t>> splits;
};

} // namespace shale

#endif // SHALE_PASSES_MEMORY_ROWCHUNKS_H
