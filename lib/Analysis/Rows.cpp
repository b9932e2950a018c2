//===- Rows.cpp - What ops do with the rows of a list ---------------------===//
#include "lib/Analysis/Rows.h"
#include "dialects/interfaces/Interfaces.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "lib/Support/OpCopies.h"

using namespace mlir;
using namespace shale;

/// Returns the dimension that a factor is, -1 if a tensor lacks it, and nothing if it is only a
/// part of a dimension.
static std::optional<int64_t> dimOf(const TensorFactors &dims, int64_t factor) {
  for (auto [dim, factors] : llvm::enumerate(dims))
    if (llvm::is_contained(factors, factor))
      return factors.size() == 1 ? std::optional<int64_t>(dim) : std::nullopt;
  return -1;
}

/// Adds the dimensions that a factor is in tensors. Fails if it is a part of one.
static LogicalResult addDims(ArrayRef<TensorFactors> tensors, int64_t factor,
                             SmallVectorImpl<int64_t> &dims) {
  for (const TensorFactors &tensor : tensors) {
    std::optional<int64_t> dim = dimOf(tensor, factor);
    if (!dim)
      return failure();
    dims.push_back(*dim);
  }
  return success();
}

/// Returns the relation along the only factor of a dimension of a tensor, which `pick` takes from
/// the rule.
static RowRelation relate(Operation *op, int64_t dim,
                          llvm::function_ref<const TensorFactors &(const ShardingRule &)> pick) {
  auto sharded = dyn_cast<ShardingRuleOpInterface>(op);
  auto stochastic = dyn_cast<StochasticOpInterface>(op);
  if (!sharded || (stochastic && stochastic.drawsRandom()))
    return {};
  ShardingRule rule = sharded.getShardingRule();
  const TensorFactors &tensor = pick(rule);
  if (dim >= int64_t(tensor.size()) || tensor[dim].size() != 1)
    return {};
  RowRelation relation;
  relation.factor = tensor[dim][0];
  const Factor &factor = rule.factors[relation.factor];
  // An op that computes with indexes along the factor depends on the order of rows.
  if (factor.contiguous || failed(addDims(rule.operands, relation.factor, relation.operands)) ||
      failed(addDims(rule.results, relation.factor, relation.results)))
    return {};
  auto lacks = [](int64_t place) { return place < 0; };
  if (factor.kind == FactorKind::Parallel && llvm::none_of(relation.results, lacks))
    relation.use = RowUse::Each;
  else if (factor.kind == FactorKind::Sum && llvm::all_of(relation.results, lacks))
    relation.use = RowUse::Sum;
  return relation;
}

RowRelation shale::relateRows(OpOperand &operand, int64_t dim) {
  return relate(operand.getOwner(), dim, [&](const ShardingRule &rule) -> const TensorFactors & {
    return rule.operands[operand.getOperandNumber()];
  });
}

RowRelation shale::relateRows(OpResult result, int64_t dim) {
  return relate(result.getOwner(), dim, [&](const ShardingRule &rule) -> const TensorFactors & {
    return rule.results[result.getResultNumber()];
  });
}

bool shale::isSameForRows(Value value, int64_t dim) {
  if (auto constant = value.getDefiningOp<nn::ConstantOp>()) {
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    return dense && dense.isSplat();
  }
  if (auto iota = value.getDefiningOp<nn::IotaOp>())
    return int64_t(iota.getDim()) != dim;
  auto broadcast = value.getDefiningOp<nn::BroadcastOp>();
  if (!broadcast)
    return false;
  const auto *place = llvm::find(broadcast.getDims(), dim);
  if (place == broadcast.getDims().end())
    return true;
  int64_t from = place - broadcast.getDims().begin();
  return nn::tensorOf(broadcast.getInput()).getDimSize(from) == 1 ||
         isSameForRows(broadcast.getInput(), from);
}

Operation *shale::cloneWithRows(OpBuilder &builder, Operation *op, ValueRange operands, Type type) {
  Operation *made = cloneAs(builder, op, operands, type);
  if (auto slice = dyn_cast<nn::SliceOp>(made)) {
    SmallVector<int64_t> limits(slice.getLimits());
    for (auto [limit, before, now] : llvm::zip(limits, nn::tensorOf(op->getOperand(0)).getShape(),
                                               nn::tensorOf(operands[0]).getShape()))
      limit += now - before;
    slice.setLimits(limits);
  }
  return made;
}
