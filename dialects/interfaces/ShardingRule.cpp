//===- ShardingRule.cpp - Properties of sharding rules --------------------===//
#include "dialects/interfaces/ShardingRule.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

using namespace mlir;
using namespace shale;

bool shale::isProduct(const ShardingRule &rule) {
  for (auto [factor, info] : llvm::enumerate(rule.factors)) {
    auto hasIt = [&, number = int64_t(factor)](const TensorFactors &operand) {
      return llvm::any_of(operand, [&](auto &dim) { return llvm::is_contained(dim, number); });
    };
    if (info.kind == FactorKind::Sum && llvm::count_if(rule.operands, hasIt) > 1)
      return true;
  }
  return false;
}

ShardingRule shale::elementwiseRule(Operation *op, ArrayRef<int64_t> linear, bool additive) {
  ShardingRule rule;
  TensorFactors dims;
  for (int64_t size : cast<RankedTensorType>(op->getResult(0).getType()).getShape()) {
    dims.emplace_back();
    if (size == 1)
      continue;
    dims.back().push_back(rule.factors.size());
    rule.factors.push_back({size, FactorKind::Parallel});
  }
  rule.operands.assign(op->getNumOperands(), dims);
  rule.results.assign(1, dims);
  rule.linear.assign(linear.begin(), linear.end());
  rule.additive = additive;
  return rule;
}
