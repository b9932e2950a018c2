//===- ShardingRule.cpp - Properties of sharding rules --------------------===//
#include "dialects/interfaces/Blocks.h"
#include "dialects/interfaces/RuleBuilder.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

using namespace mlir;
using namespace shale;

bool shale::isMatmul(const ShardingRule &rule) {
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
  RuleBuilder rule;
  TensorFactors dims = rule.dims(cast<RankedTensorType>(op->getResult(0).getType()).getShape());
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    rule.operand(dims);
  return rule.result(dims).linear(linear, additive).take();
}

int64_t shale::splitBlocks(SmallVectorImpl<int64_t> &local, int64_t blocks, int64_t parts) {
  size_t at = 0;
  for (; at < local.size() && local[at] > 0 && blocks % local[at] == 0; ++at)
    blocks /= local[at];
  bool isEmpty = at < local.size() && local[at] == 0;
  if (at == local.size() || (isEmpty && blocks > 1) || local[at] % blocks != 0 ||
      local[at] / blocks % parts != 0)
    return -1;
  if (blocks > 1) {
    local.insert(local.begin() + at, blocks);
    local[++at] /= blocks;
  }
  local[at] /= parts;
  return at;
}

SmallVector<int64_t, 2> RuleBuilder::dim(int64_t size, FactorKind kind) {
  if (size == 1)
    return {};
  rule.factors.push_back({size, kind, /*contiguous=*/false});
  return {static_cast<int64_t>(rule.factors.size()) - 1};
}

TensorFactors RuleBuilder::dims(ArrayRef<int64_t> shape, FactorKind kind) {
  TensorFactors factors;
  for (int64_t size : shape)
    factors.push_back(dim(size, kind));
  return factors;
}

SmallVector<int64_t, 2> RuleBuilder::contiguous(SmallVector<int64_t, 2> factors) {
  for (int64_t factor : factors)
    rule.factors[factor].contiguous = true;
  return factors;
}

RuleBuilder &RuleBuilder::operand(TensorFactors factors) {
  rule.operands.push_back(std::move(factors));
  return *this;
}

RuleBuilder &RuleBuilder::result(TensorFactors factors) {
  rule.results.push_back(std::move(factors));
  return *this;
}

RuleBuilder &RuleBuilder::linear(ArrayRef<int64_t> operands, bool additive) {
  rule.linear.assign(operands.begin(), operands.end());
  rule.additive = additive;
  return *this;
}
