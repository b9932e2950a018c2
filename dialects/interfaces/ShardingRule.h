//===- ShardingRule.h - How an op's dimensions relate ---------------------===//
//
// Factor-based rules, as in Shardy's op sharding rules (openxla/shardy,
// docs/propagation): each dimension of each operand and result is a product of
// factors, major to minor; one factor is one loop of the op.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_INTERFACES_SHARDINGRULE_H
#define SHALE_INTERFACES_SHARDINGRULE_H

#include "dialects/interfaces/CollectiveKind.h"
#include "mlir/IR/Types.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace shale {

/// How an axis may split a factor.
enum class FactorKind {
  /// Split in every operand and result that has it: no communication.
  Parallel,
  /// Results that lack it become partial sums when it is split.
  Sum,
  /// Results that lack it become partial maxima when it is split.
  Max,
  /// Results that lack it are whole when it is split: the op's local form
  /// (Partitionable) reduces over ranks itself.
  Internal,
  /// Must be whole on every rank.
  Whole
};

struct Factor {
  int64_t size;
  FactorKind kind;
  /// Whether the op's local form computes with indexes along the factor, which axes then split only
  /// into contiguous parts.
  bool contiguous = false;
};

/// The factors of one tensor: for each dimension the indices of its factors,
/// major to minor. A dimension of size 1 that is broadcast has none.
using TensorFactors = llvm::SmallVector<llvm::SmallVector<int64_t, 2>, 4>;

struct ShardingRule {
  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<TensorFactors> operands;
  llvm::SmallVector<TensorFactors> results;
  /// Indices of operands in which every result is linear while all others are
  /// fixed. With `additive` all operands in the list may be partial sums at once
  /// (add, concat); without it only one of them (mul, matmul).
  llvm::SmallVector<int64_t> linear;
  bool additive = false;
};

/// Whether the op multiplies two operands and sums over a dimension that both have.
bool isMatmul(const ShardingRule &rule);

/// Returns the rule of an elementwise op: all operands and the result have one parallel factor per
/// dimension larger than one. `linear` and `additive` are as in ShardingRule.
ShardingRule elementwiseRule(mlir::Operation *op, llvm::ArrayRef<int64_t> linear = {},
                             bool additive = false);

/// A mesh axis that splits a factor.
struct SplitAxis {
  llvm::StringRef name;
  int64_t size;
  /// The axis splits each of so many equal blocks of what earlier axes leave. More than one: a rank
  /// has a piece of each block, as of each example of a batch if positions are split.
  int64_t blocks = 1;
};

/// The operands of an op's local form, for PartitionableOpInterface::partition.
struct LocalForm {
  /// Local operands, laid out according to the rule and `axes`.
  llvm::SmallVector<mlir::Value> operands;
  /// Local types of the results.
  llvm::SmallVector<mlir::Type> types;
  /// For each factor of the rule the axes that split it, major to minor.
  llvm::SmallVector<llvm::SmallVector<SplitAxis, 2>> axes;
};

} // namespace shale

#endif // SHALE_INTERFACES_SHARDINGRULE_H
