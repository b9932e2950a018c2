//===- Data.cpp - Constants and data movement -----------------------------===//
#include "dialects/nn/Ops/Data.h"
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Gather.h"
#include "dialects/nn/Ops/Reduce.h"
#include "dialects/nn/Ops/Sort.h"
#include "dialects/nn/Sharding/Rules.h"
#include "mlir/IR/Builders.h"
#include <numeric>

using namespace mlir;
using namespace shale;
using namespace shale::nn;

//===- Constants ----------------------------------------------------------===//

ShardingRule ConstantOp::getShardingRule() {
  RuleBuilder rule;
  return rule.result(rule.dims(shapeOf(getResult()))).take();
}

/// Builds a smaller splat for a splat; slices other constants.
FailureOr<SmallVector<Value>> ConstantOp::partition(OpBuilder &builder, const LocalForm &local) {
  auto type = cast<RankedTensorType>(local.types[0]);
  if (auto dense = dyn_cast<DenseElementsAttr>(getValue()))
    if (dense.isSplat())
      return SmallVector<Value>{
          ConstantOp::create(builder, getLoc(), DenseElementsAttr(dense.resizeSplat(type)))};
  Value value = ConstantOp::create(builder, getLoc(), getValue());
  ShardingRule rule = getShardingRule();
  for (auto [dim, factors] : llvm::enumerate(rule.results[0])) {
    for (int64_t factor : factors)
      for (const SplitAxis &axis : local.axes[factor])
        value = inBlocks(builder, getLoc(), value, dim, axis.blocks, [&](Value from, int64_t d) {
          SmallVector<int64_t> shape(shapeOf(from));
          shape[d] /= axis.size;
          return dist::SliceOp::create(builder, getLoc(), type.clone(shape), from, axis.name, d)
              .getResult();
        });
  }
  return SmallVector<Value>{value};
}

ShardingRule IotaOp::getShardingRule() {
  RuleBuilder rule;
  return rule.result(rule.dims(shapeOf(getResult()))).take();
}

/// Counts from the start of this rank's slice; in several pieces, pieces and the elements of each.
FailureOr<SmallVector<Value>> IotaOp::partition(OpBuilder &builder, const LocalForm &local) {
  auto type = cast<RankedTensorType>(local.types[0]);
  int64_t along = getDim();
  ShardingRule rule = getShardingRule();
  ArrayRef<int64_t> factors = rule.results[0][along];
  ArrayRef<SplitAxis> axes = factors.empty() ? ArrayRef<SplitAxis>() : local.axes[factors[0]];
  SmallVector<PieceDim> dims = pieceDims(axes, shapeOf(getResult())[along]);
  llvm::erase_if(dims, [](const PieceDim &dim) { return !dim.axis.empty(); });
  SmallVector<int64_t> shape(type.getShape());
  shape.erase(shape.begin() + along);
  for (auto [i, dim] : llvm::enumerate(dims))
    shape.insert(shape.begin() + along + i, dim.size);
  RankedTensorType split = type.clone(shape);
  Value value;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    Value index = IotaOp::create(builder, getLoc(), split, along + i);
    if (dim.stride > 1)
      index = MulOp::create(builder, getLoc(), index, splat(builder, getLoc(), split, dim.stride));
    value = addOffset(builder, getLoc(), value, index);
  }
  value = reshape(builder, getLoc(), value, type.getShape());
  if (!axes.empty())
    value = addOffset(builder, getLoc(), value,
                      pieceOffset(builder, getLoc(), axes, type.getDimSize(along), type));
  return SmallVector<Value>{value};
}

//===- Shape --------------------------------------------------------------===//

/// Cuts both shapes into common factors from the major end: [6, 4] -> [3, 8] is
/// [3 2, 4] -> [3, 2 4]. Where sizes have no common divisor, the remaining factors
/// are whole up to the point where both shapes have as many elements again.
ShardingRule ReshapeOp::getShardingRule() {
  ArrayRef<int64_t> from = shapeOf(getInput()), to = shapeOf(getResult());
  RuleBuilder rule;
  TensorFactors operand(from.size()), result(to.size());
  size_t i = 0, j = 0;
  int64_t a = 1, b = 1; // what is left of from[i - 1] and to[j - 1]
  auto next = [](ArrayRef<int64_t> shape, size_t &index, int64_t &left) {
    while (left == 1 && index < shape.size())
      left = shape[index++];
    return left != 1;
  };
  while (next(from, i, a) && next(to, j, b)) {
    if (a == 0 || b == 0)
      break; // no elements: nothing to split
    int64_t common = std::gcd(a, b);
    if (common > 1) {
      auto factor = rule.dim(common);
      operand[i - 1].append(factor);
      result[j - 1].append(factor);
      a /= common;
      b /= common;
      continue;
    }
    // Advance both sides until they have the same number of elements.
    operand[i - 1].append(rule.dim(a, FactorKind::Whole));
    result[j - 1].append(rule.dim(b, FactorKind::Whole));
    while (a != b) {
      if (a < b) {
        if (i == from.size())
          break;
        operand[i].append(rule.dim(from[i], FactorKind::Whole));
        a *= from[i++];
      } else {
        if (j == to.size())
          break;
        result[j].append(rule.dim(to[j], FactorKind::Whole));
        b *= to[j++];
      }
    }
    a = b = 1;
  }
  return rule.operand(operand).result(result).linear({0}, true).take();
}

ShardingRule TransposeOp::getShardingRule() {
  RuleBuilder rule;
  TensorFactors operand = rule.dims(shapeOf(getInput())), result;
  for (int64_t dim : getPerm())
    result.push_back(operand[dim]);
  return rule.operand(operand).result(result).linear({0}, true).take();
}

ShardingRule BroadcastOp::getShardingRule() {
  RuleBuilder rule;
  TensorFactors result = rule.dims(shapeOf(getResult())), operand;
  for (auto [size, dim] : llvm::zip(shapeOf(getInput()), getDims()))
    operand.push_back(size == 1 ? SmallVector<int64_t, 2>() : result[dim]);
  return rule.operand(operand).result(result).linear({0}, true).take();
}

namespace {
/// A dimension seen as periods of equal length. Some periods in a row have one used element each,
/// at the same place: a slice takes it, or a pad fills it. Other periods have none. The periods
/// fall into equal groups, the largest at whose ends the row of used periods begins and ends. Ranks
/// can divide each group: the part of a rank has the same form, with smaller groups.
struct PeriodicDim {
  PeriodicDim(int64_t size, int64_t start, int64_t step, int64_t used)
      : size(size), step(step), used(used), first(start / step), place(start % step),
        group(std::gcd(std::gcd(size / step, first), used)) {}

  /// Adds the factors of the dimension to `whole`, and those of its used elements to `part`.
  void addTo(RuleBuilder &rule, TensorFactors &whole, TensorFactors &part) const {
    if (used == 0 || size % step != 0) {
      whole.push_back(rule.dim(size, FactorKind::Whole));
      part.push_back(rule.dim(used, FactorKind::Whole));
      return;
    }
    whole.push_back(rule.dim(size / step / group, FactorKind::Whole));
    part.push_back(rule.dim(used / group, FactorKind::Whole));
    auto periods = rule.dim(group);
    whole.back().append(periods);
    part.back().append(periods);
    whole.back().append(rule.dim(step, FactorKind::Whole));
  }
  /// Returns the first used element in the part of one of so many ranks.
  int64_t startFor(int64_t ranks) const { return first / ranks * step + place; }

  int64_t size, step;
  int64_t used;  ///< number of elements, one per period
  int64_t first; ///< number of the first period with a used element
  int64_t place; ///< of the used element in its period
  int64_t group; ///< number of periods in a group
};
} // namespace

static PeriodicDim periodsOf(SliceOp op, int64_t dim) {
  return {shapeOf(op.getInput())[dim], op.getStarts()[dim], op.getStrides()[dim],
          shapeOf(op.getResult())[dim]};
}

static PeriodicDim periodsOf(PadOp op, int64_t dim) {
  return {shapeOf(op.getResult())[dim], op.getLow()[dim], op.getInterior()[dim] + 1,
          shapeOf(op.getInput())[dim]};
}

ShardingRule SliceOp::getShardingRule() {
  RuleBuilder rule;
  TensorFactors operand, result;
  for (size_t dim = 0; dim < getStarts().size(); ++dim)
    periodsOf(*this, dim).addTo(rule, operand, result);
  return rule.operand(operand).result(result).linear({0}, true).take();
}

/// Returns into how many pieces ranks divide a dimension with these factors.
static int64_t piecesOf(ArrayRef<int64_t> factors, const LocalForm &local) {
  int64_t count = 1;
  for (int64_t factor : factors)
    count *= pieces(local.axes[factor]);
  return count;
}

/// A rank slices its own part: the limit is as far behind the last element as in the whole.
FailureOr<SmallVector<Value>> SliceOp::partition(OpBuilder &builder, const LocalForm &local) {
  SmallVector<int64_t> starts(getStarts()), limits(getLimits());
  ShardingRule rule = getShardingRule();
  for (auto [dim, factors] : llvm::enumerate(rule.operands[0])) {
    int64_t ranks = piecesOf(factors, local);
    PeriodicDim periods = periodsOf(*this, dim);
    starts[dim] = periods.startFor(ranks);
    limits[dim] +=
        starts[dim] - getStarts()[dim] - (periods.used - periods.used / ranks) * periods.step;
  }
  return SmallVector<Value>{SliceOp::create(
      builder, getLoc(), local.types[0], local.operands[0], builder.getDenseI64ArrayAttr(starts),
      builder.getDenseI64ArrayAttr(limits), getStridesAttr())};
}

ShardingRule PadOp::getShardingRule() {
  RuleBuilder rule;
  TensorFactors operand, result;
  for (size_t dim = 0; dim < getLow().size(); ++dim)
    periodsOf(*this, dim).addTo(rule, result, operand);
  rule.operand(operand).result(result);
  if (getValue().isZero()) // another value would be added once per rank
    rule.linear({0}, true);
  return rule.take();
}

/// A rank pads its own part, up to the size of its part of the result.
FailureOr<SmallVector<Value>> PadOp::partition(OpBuilder &builder, const LocalForm &local) {
  SmallVector<int64_t> low(getLow()), high(getHigh());
  ShardingRule rule = getShardingRule();
  for (auto [dim, factors] : llvm::enumerate(rule.results[0])) {
    int64_t ranks = piecesOf(factors, local);
    if (ranks == 1)
      continue;
    PeriodicDim periods = periodsOf(*this, dim);
    low[dim] = periods.startFor(ranks);
    high[dim] = periods.size / ranks - low[dim] - (periods.used / ranks - 1) * periods.step - 1;
  }
  return SmallVector<Value>{PadOp::create(builder, getLoc(), local.types[0], local.operands[0], low,
                                          high, getInterior(), getValue())};
}

ShardingRule ConcatOp::getShardingRule() {
  RuleBuilder rule;
  TensorFactors result;
  int64_t along = getDim();
  for (auto [i, size] : llvm::enumerate(shapeOf(getResult())))
    result.push_back(rule.dim(size, static_cast<int64_t>(i) == along ? FactorKind::Whole
                                                                     : FactorKind::Parallel));
  SmallVector<int64_t> all;
  for (Value input : getInputs()) {
    TensorFactors operand = result;
    operand[along] = rule.dim(shapeOf(input)[along], FactorKind::Whole);
    rule.operand(operand);
    all.push_back(all.size());
  }
  return rule.result(result).linear(all, true).take();
}

ShardingRule GatherOp::getShardingRule() {
  RuleBuilder rule;
  TensorFactors input = rule.dims(shapeOf(getInput()));
  TensorFactors indices = rule.dims(shapeOf(getIndices()));
  int64_t dim = getDim();
  input[dim] = rule.dim(shapeOf(getInput())[dim], FactorKind::Whole);
  TensorFactors result(input.begin(), input.begin() + dim);
  result.append(indices.begin(), indices.end());
  result.append(input.begin() + dim + 1, input.end());
  return rule.operand(input).operand(indices).result(result).linear({0}, true).take();
}

namespace {
/// Batch dimensions and dimensions that are not indexed are parallel; indexed
/// dimensions are whole. The other dimensions of the tuples are of kind `picks`.
struct PickFactors {
  PickFactors(RuleBuilder &rule, Value whole, Value tuples, int64_t batch, FactorKind picks) {
    ArrayRef<int64_t> at = shapeOf(tuples);
    int64_t rank = at.size(), tuple = at.back();
    for (int64_t i = 0; i + 1 < rank; ++i)
      indices.push_back(rule.dim(at[i], i < batch ? FactorKind::Parallel : picks));
    input.assign(indices.begin(), indices.begin() + batch);
    picked = indices;
    indices.push_back(rule.dim(tuple, FactorKind::Whole));
    for (auto [i, size] : llvm::enumerate(shapeOf(whole).drop_front(batch))) {
      bool looked = int64_t(i) < tuple;
      input.push_back(rule.dim(size, looked ? FactorKind::Whole : FactorKind::Parallel));
      if (!looked)
        picked.push_back(input.back());
    }
  }
  TensorFactors input, indices, picked;
};
} // namespace

ShardingRule GatherNdOp::getShardingRule() {
  RuleBuilder rule;
  PickFactors f(rule, getInput(), getIndices(), getBatchDims(), FactorKind::Parallel);
  return rule.operand(f.input).operand(f.indices).result(f.picked).linear({0}, true).take();
}

ShardingRule GatherNdGradOp::getShardingRule() {
  RuleBuilder rule;
  PickFactors f(rule, getResult(), getIndices(), getBatchDims(), FactorKind::Sum);
  return rule.operand(f.indices).operand(f.picked).result(f.input).linear({1}).take();
}

ShardingRule CumsumOp::getShardingRule() {
  RuleBuilder rule;
  TensorFactors dims;
  for (auto [i, size] : llvm::enumerate(shapeOf(getInput())))
    dims.push_back(rule.dim(size, static_cast<int64_t>(i) == static_cast<int64_t>(getDim())
                                      ? FactorKind::Whole
                                      : FactorKind::Parallel));
  return rule.operand(dims).result(dims).linear({0}, true).take();
}

ShardingRule ReduceOp::getShardingRule() {
  RuleBuilder rule;
  FactorKind kind = getKind() == ReduceKind::Sum   ? FactorKind::Sum
                    : getKind() == ReduceKind::Max ? FactorKind::Max
                                                   : FactorKind::Whole;
  TensorFactors operand, result;
  for (auto [i, size] : llvm::enumerate(shapeOf(getInput()))) {
    bool reduced = llvm::is_contained(getDims(), static_cast<int64_t>(i));
    operand.push_back(rule.dim(size, reduced ? kind : FactorKind::Parallel));
    if (!reduced)
      result.push_back(operand.back());
  }
  rule.operand(operand).result(result);
  if (getKind() == ReduceKind::Sum)
    rule.linear({0}, true);
  return rule.take();
}

/// Lines are ordered each on its own.
ShardingRule TopKOp::getShardingRule() {
  RuleBuilder rule;
  ArrayRef<int64_t> lines = shapeOf(getInput()).drop_back();
  TensorFactors operand = rule.dims(lines), result = operand;
  operand.push_back(rule.dim(shapeOf(getInput()).back(), FactorKind::Whole));
  result.push_back(rule.dim(shapeOf(getValues()).back(), FactorKind::Whole));
  return rule.operand(operand).result(result).result(result).take();
}
