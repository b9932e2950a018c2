//===- ShardingRule.h - How an op's dimensions relate ---------------------===//
//
// Factor-based rules, as in Shardy's op sharding rules (openxla/shardy,
// docs/propagation): each dimension of each operand and result is a product of
// factors, major to minor; one factor is one loop of the op.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_INTERFACES_SHARDINGRULE_H
#define SHALE_INTERFACES_SHARDINGRULE_H

#include "llvm/ADT/SmallVector.h"
#include <cstdint>

namespace shale {

/// What may happen to a factor that an axis splits.
enum class FactorKind {
  /// Split in every operand and result that has it: no communication.
  Parallel,
  /// Only in operands; results become partial sums when it is split.
  Sum,
  /// Only in operands; results become partial maxima when it is split.
  Max,
  /// Must be whole on every rank.
  Whole
};

struct Factor {
  int64_t size;
  FactorKind kind;
};

/// The factors of one tensor: for each dimension the indices of its factors,
/// major to minor. A dimension of size 1 that is broadcast has none.
using TensorFactors = llvm::SmallVector<llvm::SmallVector<int64_t, 2>, 4>;

struct ShardingRule {
  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<TensorFactors> operands;
  llvm::SmallVector<TensorFactors> results;
  /// Operand indices in which every result is linear when all others are held:
  /// with `additive` the operands of the list may be partial sums all at once
  /// (add, concat); without it any one of them alone (mul, matmul).
  llvm::SmallVector<int64_t> linear;
  bool additive = false;
};

} // namespace shale

#endif // SHALE_INTERFACES_SHARDINGRULE_H
