//===- Attention.cpp - Batch rows and heads in parallel -------------------===//
#include "dialects/nn/Ops/Attention.h"
#include "dialects/nn/Sharding/Rules.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

namespace {
/// Query head h = g * r + i reads key head g, so heads are split over g first. If
/// the r query heads of one key head are split, the gradient of the key head is a
/// partial sum. Positions and the depth of a head are whole.
struct AttentionFactors {
  AttentionFactors(RuleBuilder &rule, Value q, Value k, Value v) {
    int64_t heads = shapeOf(q)[1], groups = shapeOf(k)[1];
    // Dropout counts the elements of a slice from its first one.
    auto batch = rule.contiguous(rule.dim(shapeOf(q)[0]));
    auto group = rule.contiguous(rule.dim(groups));
    SmallVector<int64_t, 2> head = group;
    head.append(rule.contiguous(rule.dim(heads / groups, FactorKind::Sum)));
    auto t = rule.dim(shapeOf(q)[2], FactorKind::Whole);
    auto s = rule.dim(shapeOf(k)[2], FactorKind::Whole);
    auto d = rule.dim(shapeOf(q)[3], FactorKind::Whole);
    auto e = rule.dim(shapeOf(v)[3], FactorKind::Whole);
    query = {batch, head, t, d};
    key = {batch, group, s, d};
    value = {batch, group, s, e};
    output = {batch, head, t, e};
    lse = {batch, head, t};
    scores = {batch, head, t, s};
  }
  /// Returns the factors of a mask: those of the scores in dimensions where it does not repeat.
  TensorFactors mask(Value m) const {
    TensorFactors result;
    for (auto [size, factors] : llvm::zip(shapeOf(m), scores))
      result.push_back(size == 1 ? SmallVector<int64_t, 2>() : factors);
    return result;
  }
  TensorFactors query, key, value, output, lse, scores;
};
} // namespace

/// Builds the local form. A rank applies dropout to its own elements by their numbers
/// in the whole. Its heads are those of some groups, or some heads of each group.
template <typename OpT>
static FailureOr<SmallVector<Value>> partitionAttention(OpT op, OpBuilder &builder,
                                                        const LocalForm &local) {
  auto made = cast<OpT>(builder.cloneWithoutRegions(*op.getOperation()));
  made->setOperands(local.operands); // an op may read one value twice
  for (auto [result, type] : llvm::zip(made->getResults(), local.types))
    result.setType(type);
  DropAttr dropout = op.getDropoutAttr();
  if (!dropout)
    return SmallVector<Value>(made->getResults());
  if (!dropout.getWhole().empty())
    return op.emitOpError("is a local form already"), failure();
  int64_t batch = shapeOf(op.getQuery())[0], heads = shapeOf(op.getQuery())[1],
          groups = shapeOf(op.getKey())[1];
  int64_t whole[] = {batch, groups, heads / groups, shapeOf(op.getQuery())[2],
                     shapeOf(op.getKey())[2]};
  ArrayRef<int64_t> query = shapeOf(made.getQuery());
  int64_t localGroups = shapeOf(made.getKey())[1];
  int64_t piece[] = {query[0], localGroups, query[1] / localGroups};
  // The factors of batch rows, groups and heads per group, in the order in which the rule makes
  // them.
  TensorFactors factors = op.getShardingRule().operands[0];
  SmallVector<int64_t> ids(3, -1);
  unsigned next = 0;
  if (batch > 1)
    ids[0] = factors[0][0];
  if (groups > 1)
    ids[1] = factors[1][next++];
  if (heads > groups)
    ids[2] = factors[1][next];
  auto scalar = RankedTensorType::get({}, builder.getI64Type());
  int64_t stride = whole[3] * whole[4];
  builder.setInsertionPoint(made);
  Value offset;
  for (int i = 2; i >= 0; --i) {
    if (ids[i] >= 0 && !local.axes[ids[i]].empty()) {
      Value begin =
          pieceOffset(builder, op.getLoc(), local.axes[ids[i]], piece[i] * stride, scalar);
      offset = addOffset(builder, op.getLoc(), offset, begin);
    }
    stride *= whole[i];
  }
  builder.setInsertionPointAfter(made);
  if (offset) { // otherwise the probabilities are not split
    made.getRandomMutable().append(offset);
    made.setDropoutAttr(DropAttr::get(op.getContext(), dropout.getRatio(), dropout.getId(), whole));
  }
  return SmallVector<Value>(made->getResults());
}

FailureOr<SmallVector<Value>> AttentionOp::partition(OpBuilder &builder, const LocalForm &local) {
  return partitionAttention(*this, builder, local);
}

FailureOr<SmallVector<Value>> AttentionGradOp::partition(OpBuilder &builder,
                                                         const LocalForm &local) {
  return partitionAttention(*this, builder, local);
}

ShardingRule AttentionOp::getShardingRule() {
  RuleBuilder rule;
  AttentionFactors f(rule, getQuery(), getKey(), getValue());
  rule.operand(f.query).operand(f.key).operand(f.value);
  for (Value mask : {Value(getMask()), Value(getSeen())})
    if (mask)
      rule.operand(f.mask(mask));
  for (unsigned i = 0; i < getRandom().size(); ++i)
    rule.operand({});
  return rule.result(f.output).result(f.lse).take();
}

ShardingRule AttentionGradOp::getShardingRule() {
  RuleBuilder rule;
  AttentionFactors f(rule, getQuery(), getKey(), getValue());
  rule.operand(f.query).operand(f.key).operand(f.value).operand(f.output).operand(f.lse).operand(
      f.output);
  for (Value mask : {Value(getMask()), Value(getSeen())})
    if (mask)
      rule.operand(f.mask(mask));
  for (unsigned i = 0; i < getRandom().size(); ++i)
    rule.operand({});
  return rule.result(f.query).result(f.key).result(f.value).linear({5}).take();
}

ShardingRule RopeOp::getShardingRule() {
  RuleBuilder rule;
  ArrayRef<int64_t> shape = shapeOf(getInput());
  TensorFactors input = rule.dims(shape.drop_back());
  auto half = rule.dim(shapeOf(getCos())[1], FactorKind::Whole);
  TensorFactors table = {input[getPositionDim()], half};
  input.push_back(rule.dim(shape.back(), FactorKind::Whole));
  return rule.operand(input).operand(table).operand(table).result(input).linear({0}).take();
}
