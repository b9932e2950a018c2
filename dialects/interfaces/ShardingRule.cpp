//===- ShardingRule.cpp - The rule of elementwise ops ---------------------===//
#include "dialects/interfaces/ShardingRule.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

using namespace mlir;
using namespace shale;

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
