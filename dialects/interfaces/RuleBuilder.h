//===- RuleBuilder.h - Builds sharding rules ------------------------------===//
#ifndef SHALE_INTERFACES_RULEBUILDER_H
#define SHALE_INTERFACES_RULEBUILDER_H

#include "dialects/interfaces/ShardingRule.h"

namespace shale {

/// Collects the factors of a rule. A dimension of size 1 has no factors: nothing
/// can split it.
class RuleBuilder {
public:
  /// Adds a factor and returns its index; returns the empty list for size 1.
  llvm::SmallVector<int64_t, 2> dim(int64_t size, FactorKind kind = FactorKind::Parallel);
  /// Adds one factor per dimension.
  TensorFactors dims(llvm::ArrayRef<int64_t> shape, FactorKind kind = FactorKind::Parallel);
  /// Marks factors as contiguous.
  llvm::SmallVector<int64_t, 2> contiguous(llvm::SmallVector<int64_t, 2> factors);
  RuleBuilder &operand(TensorFactors factors);
  RuleBuilder &result(TensorFactors factors);
  /// See ShardingRule::linear.
  RuleBuilder &linear(llvm::ArrayRef<int64_t> operands, bool additive = false);
  ShardingRule take() { return std::move(rule); }

private:
  ShardingRule rule;
};

} // namespace shale

#endif // SHALE_INTERFACES_RULEBUILDER_H
