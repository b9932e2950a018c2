//===- TensorLayout.cpp - Layouts of values and assignments of ops --------===//
#include "passes/sharding/TensorLayout.h"
#include "dialects/interfaces/Blocks.h"

using namespace mlir;

namespace shale {
inline namespace sharding {

//===- TensorLayout -------------------------------------------------------------===//

TensorLayout TensorLayout::replicated(int64_t rank) {
  TensorLayout layout;
  layout.dims.resize(rank);
  return layout;
}

TensorLayout TensorLayout::from(dist::ShardingAttr attr) {
  TensorLayout layout = replicated(attr.getRank());
  for (int64_t dim = 0; dim < attr.getRank(); ++dim)
    for (auto [axis, blocks] : llvm::zip_equal(attr.getAxes(dim), attr.getBlocks(dim)))
      layout.dims[dim].emplace_back(axis, blocks);
  for (NamedAttribute part : attr.getPartial())
    layout.partial.emplace_back(part.getName().getValue(),
                                cast<dist::ReductionAttr>(part.getValue()).getValue());
  return layout;
}

dist::ShardingAttr TensorLayout::toAttr(MLIRContext *context) const {
  SmallVector<Attribute> lists;
  for (const DimAxes &axes : dims) {
    SmallVector<Attribute> names;
    for (const DimAxis &axis : axes)
      names.push_back(
          dist::ShardingAttr::entryOf(StringAttr::get(context, axis.name), axis.blocks));
    lists.push_back(ArrayAttr::get(context, names));
  }
  SmallVector<NamedAttribute> parts;
  for (auto [axis, kind] : partial)
    parts.emplace_back(StringAttr::get(context, axis), dist::ReductionAttr::get(context, kind));
  return dist::ShardingAttr::get(context, ArrayAttr::get(context, lists),
                                 DictionaryAttr::get(context, parts));
}

int64_t TensorLayout::dimOf(StringRef axis) const {
  for (auto [dim, axes] : llvm::enumerate(dims))
    if (llvm::any_of(axes, [&](const DimAxis &each) { return each.name == axis; }))
      return dim;
  return -1;
}

bool TensorLayout::isInBlocks() const {
  return llvm::any_of(dims, [](const DimAxes &axes) {
    return llvm::any_of(axes, [](const DimAxis &axis) { return axis.blocks > 1; });
  });
}

std::optional<dist::Reduction> TensorLayout::partialOn(StringRef axis) const {
  for (auto [name, kind] : partial)
    if (name == axis)
      return kind;
  return std::nullopt;
}

void TensorLayout::removePartial(StringRef axis) {
  llvm::erase_if(partial, [&](auto &part) { return part.first == axis; });
}

RankedTensorType localType(RankedTensorType type, const TensorLayout &layout, dist::MeshOp mesh) {
  SmallVector<int64_t> shape(type.getShape());
  for (auto [dim, axes] : llvm::enumerate(layout.dims))
    for (StringRef axis : axes)
      shape[dim] /= mesh.getSize(axis);
  return RankedTensorType::get(shape, type.getElementType());
}

//===- Assignment ---------------------------------------------------------===//

int64_t Assignment::factorOf(StringRef axis) const {
  for (auto [factor, axes] : llvm::enumerate(factors))
    for (const SplitAxis &split : axes)
      if (split.name == axis)
        return factor;
  return -1;
}

bool Assignment::splitsNothing() const {
  return llvm::all_of(factors, [](auto &axes) { return axes.empty(); });
}

Value rootOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (op->getNumOperands() != 1 || op->getNumResults() != 1)
      break;
    value = op->getOperand(0);
  }
  return value;
}

ShardingRule getRule(Operation *op) {
  if (auto sharded = dyn_cast<ShardingRuleOpInterface>(op))
    return sharded.getShardingRule();
  ShardingRule rule;
  auto whole = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return TensorFactors(type ? type.getRank() : 0);
  };
  for (Value operand : op->getOperands())
    rule.operands.push_back(whole(operand));
  for (Value result : op->getResults())
    rule.results.push_back(whole(result));
  return rule;
}

static int64_t splitInto(const Assignment &assignment, int64_t factor) {
  int64_t count = 1;
  for (const SplitAxis &axis : assignment.factors[factor])
    count *= axis.size;
  return count;
}

/// An axis splits a minor factor of a dimension in blocks: one for each element that is left of the
/// more major factors.
static TensorLayout splitLayout(const ShardingRule &rule, const Assignment &assignment,
                                const TensorFactors &tensor) {
  TensorLayout layout = TensorLayout::replicated(tensor.size());
  for (auto [dim, factors] : llvm::enumerate(tensor)) {
    int64_t ahead = 1;
    for (int64_t factor : factors) {
      for (const SplitAxis &axis : assignment.factors[factor])
        layout.dims[dim].emplace_back(axis.name, ahead * axis.blocks);
      ahead *= rule.factors[factor].size / splitInto(assignment, factor);
    }
  }
  return layout;
}

bool hasFactor(const TensorFactors &tensor, int64_t factor) {
  return llvm::any_of(tensor, [&](auto &factors) { return llvm::is_contained(factors, factor); });
}

bool isExchanged(const ShardingRule &rule, int64_t factor) {
  return rule.factors[factor].kind == FactorKind::Internal &&
         llvm::any_of(rule.results, [&](auto &result) { return hasFactor(result, factor); });
}

/// Sorts partial axes alphabetically, as attributes do.
static void sortPartial(TensorLayout &layout) { llvm::sort(layout.partial); }

TensorLayout operandLayout(const ShardingRule &rule, const Assignment &assignment, unsigned i) {
  TensorLayout layout = splitLayout(rule, assignment, rule.operands[i]);
  for (auto &[axis, operands] : assignment.kept)
    if (llvm::is_contained(operands, static_cast<int64_t>(i)))
      layout.partial.emplace_back(axis, dist::Reduction::Sum);
  sortPartial(layout);
  return layout;
}

TensorLayout resultLayout(const ShardingRule &rule, const Assignment &assignment, unsigned i) {
  TensorLayout layout = splitLayout(rule, assignment, rule.results[i]);
  for (auto [factor, axes] : llvm::enumerate(assignment.factors)) {
    FactorKind kind = rule.factors[factor].kind;
    if (hasFactor(rule.results[i], factor) || (kind != FactorKind::Sum && kind != FactorKind::Max))
      continue;
    for (const SplitAxis &axis : axes)
      layout.partial.emplace_back(axis.name, kind == FactorKind::Sum ? dist::Reduction::Sum
                                                                     : dist::Reduction::Max);
  }
  for (auto &[axis, operands] : assignment.kept)
    layout.partial.emplace_back(axis, dist::Reduction::Sum);
  sortPartial(layout);
  return layout;
}

Projection projectAxis(const ShardingRule &rule, const TensorFactors &tensor,
                       const TensorLayout &layout, StringRef axis, dist::MeshOp mesh) {
  int64_t dim = layout.dimOf(axis);
  if (dim < 0)
    return {};
  ArrayRef<int64_t> factors = tensor[dim];
  SmallVector<int64_t, 2> left; // of each factor
  for (int64_t factor : factors)
    left.push_back(rule.factors[factor].size);
  for (const DimAxis &each : layout.dims[dim]) {
    int64_t size = mesh.getSize(each.name), blocks = each.blocks;
    size_t at = 0;
    for (; at < left.size() && left[at] > 0 && blocks % left[at] == 0; ++at)
      blocks /= left[at];
    if (at == left.size() || left[at] % blocks != 0 || left[at] / blocks % size != 0)
      return {};
    if (each.name == axis)
      return {factors[at], blocks};
    left[at] /= size;
  }
  return {};
}

bool canSplit(const ShardingRule &rule, const Assignment &assignment, Projection part, int64_t size,
              bool inBlocks) {
  const Factor &f = rule.factors[part.factor];
  SmallVector<int64_t> local{f.size};
  for (const SplitAxis &axis : assignment.factors[part.factor])
    splitBlocks(local, axis.blocks, axis.size);
  if (f.kind == FactorKind::Whole || splitBlocks(local, part.blocks, size) < 0)
    return false;
  if (inBlocks && !f.contiguous)
    return true;
  auto majorPartsDone = [&](const TensorFactors &tensor) {
    for (auto &factors : tensor)
      for (int64_t other : factors) {
        if (other == part.factor)
          break;
        if (llvm::is_contained(factors, part.factor) &&
            splitInto(assignment, other) != rule.factors[other].size)
          return false;
      }
    return true;
  };
  return part.blocks == 1 && llvm::all_of(rule.operands, majorPartsDone) &&
         llvm::all_of(rule.results, majorPartsDone);
}

SmallVector<int64_t> keptOperands(const ShardingRule &rule, ArrayRef<TensorLayout> operands,
                                  StringRef axis) {
  SmallVector<int64_t> partial;
  for (auto [i, layout] : llvm::enumerate(operands))
    if (layout.partialOn(axis) == dist::Reduction::Sum)
      partial.push_back(i);
  if (partial.empty())
    return {};
  if (rule.additive ? partial == rule.linear
                    : partial.size() == 1 && llvm::is_contained(rule.linear, partial[0]))
    return partial;
  return {};
}

void setAssignment(Operation *op, const Assignment &assignment) {
  TensorLayout layout = TensorLayout::replicated(assignment.factors.size());
  for (auto [axes, dim] : llvm::zip_equal(assignment.factors, layout.dims))
    for (const SplitAxis &axis : axes)
      dim.emplace_back(axis.name, axis.blocks);
  for (auto &[axis, operands] : assignment.kept)
    layout.partial.emplace_back(axis, dist::Reduction::Sum);
  sortPartial(layout);
  if (assignment.splitsNothing() && assignment.kept.empty())
    op->removeAttr(dist::kFactorsAttr);
  else
    op->setAttr(dist::kFactorsAttr, layout.toAttr(op->getContext()));
}

FailureOr<Assignment> getAssignment(Operation *op, const ShardingRule &rule,
                                    ArrayRef<TensorLayout> operands, dist::MeshOp mesh,
                                    bool inBlocks) {
  TensorLayout recorded = TensorLayout::replicated(rule.factors.size());
  auto attr = op->getAttrOfType<dist::ShardingAttr>(dist::kFactorsAttr);
  if (attr)
    recorded = TensorLayout::from(attr);
  if (recorded.dims.size() != rule.factors.size())
    return op->emitOpError("has ")
           << rule.factors.size() << " factors, 'dist.factors' is of " << recorded.dims.size();
  dropSingletons(recorded, mesh);
  Assignment assignment;
  assignment.factors.resize(rule.factors.size());
  AxisList left = axesByPriority(mesh);
  llvm::erase_if(left, [&](StringRef axis) { return recorded.dimOf(axis) < 0; });
  // As in propagation, a split may need one over an axis that comes later.
  while (!left.empty()) {
    size_t before = left.size();
    llvm::erase_if(left, [&](StringRef axis) {
      int64_t factor = recorded.dimOf(axis), size = mesh.getSize(axis);
      auto entry = llvm::find_if(recorded.dims[factor],
                                 [&](const DimAxis &each) { return each.name == axis; });
      size_t place = entry - recorded.dims[factor].begin();
      if (place != assignment.factors[factor].size() ||
          !canSplit(rule, assignment, {factor, entry->blocks}, size, inBlocks))
        return false;
      assignment.factors[factor].push_back({axis, size, entry->blocks});
      return true;
    });
    if (left.size() == before)
      return op->emitOpError("axis '")
             << left.front() << "' cannot split its factor " << recorded.dimOf(left.front());
  }
  for (auto [axis, kind] : recorded.partial) {
    SmallVector<int64_t> kept = keptOperands(rule, operands, axis);
    if (kind != dist::Reduction::Sum || kept.empty() || assignment.factorOf(axis) >= 0)
      return op->emitOpError("cannot add up partial sums on axis '") << axis << "'";
    assignment.kept.emplace_back(axis, kept);
  }
  for (OpResult result : op->getResults()) {
    unsigned i = result.getResultNumber();
    if (TensorLayout layout = *getLayout(result); !(resultLayout(rule, assignment, i) == layout))
      return op->emitOpError("result ")
             << i << " cannot have the sharding " << layout.toAttr(op->getContext())
             << " where its factors are split as " << recorded.toAttr(op->getContext());
  }
  return assignment;
}

void removeLayouts(Operation *op) {
  op->removeDiscardableAttr(dist::kShardingsAttr);
  op->removeDiscardableAttr(dist::kFactorsAttr);
}

bool makesBlocks(Operation *op, dist::MeshOp mesh) {
  auto constraint = dyn_cast<dist::ConstrainOp>(op);
  if (!constraint)
    return false;
  TensorLayout layout = TensorLayout::from(constraint.getSharding());
  RankedTensorType local = localType(constraint.getType(), layout, mesh);
  int64_t ahead = 1;
  for (auto [dim, axes] :
       llvm::enumerate(ArrayRef(layout.dims).drop_back(layout.dims.empty() ? 0 : 1))) {
    if (ahead > 1 && !axes.empty())
      return true;
    ahead *= local.getDimSize(dim);
  }
  return layout.isInBlocks();
}

bool hasBlocks(FunctionOpInterface function, dist::MeshOp mesh) {
  return function
      .walk([&](Operation *op) {
        return makesBlocks(op, mesh) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

AxisList axesByPriority(dist::MeshOp mesh) {
  AxisList axes;
  for (bool values : {false, true})
    for (auto name : mesh.getAxes().getAsRange<StringAttr>()) {
      StringRef axis = name.getValue();
      if (mesh.splits(axis) && mesh.splitsValues(axis) == values)
        axes.push_back(axis);
    }
  return axes;
}

StringRef joinAxes(AxisList axes, dist::MeshOp mesh) {
  llvm::sort(axes, [&](StringRef a, StringRef b) { return mesh.indexOf(a) < mesh.indexOf(b); });
  return axes.size() == 1 ? axes.front() : mesh.join(axes);
}

void dropSingletons(TensorLayout &layout, dist::MeshOp mesh) {
  auto singleton = [&](StringRef axis) { return !mesh.splits(axis); };
  for (DimAxes &axes : layout.dims)
    llvm::erase_if(axes, singleton);
  llvm::erase_if(layout.partial, [&](auto &part) { return singleton(part.first); });
}

std::optional<TensorLayout> getLayout(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function = dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
    if (!function)
      return std::nullopt;
    auto attr =
        function.getArgAttrOfType<dist::ShardingAttr>(argument.getArgNumber(), dist::kShardingAttr);
    return attr ? std::optional(TensorLayout::from(attr)) : std::nullopt;
  }
  auto result = cast<OpResult>(value);
  auto list = result.getOwner()->getAttrOfType<ArrayAttr>(dist::kShardingsAttr);
  if (!list || result.getResultNumber() >= list.size())
    return std::nullopt;
  auto attr = dyn_cast<dist::ShardingAttr>(list[result.getResultNumber()]);
  return attr ? std::optional(TensorLayout::from(attr)) : std::nullopt;
}

LogicalResult verifyHasLayouts(FunctionOpInterface function) {
  if (function.isExternal() || !function.getFunctionBody().hasOneBlock())
    return function.emitError("must have one block to be partitioned");
  for (BlockArgument argument : function.getArguments())
    if (!getLayout(argument))
      return function.emitError("argument ") << argument.getArgNumber() << " has no sharding";
  for (Operation &op : function.getFunctionBody().front())
    for (OpResult result : op.getResults())
      if (!getLayout(result))
        return op.emitOpError("result ") << result.getResultNumber() << " has no sharding";
  return success();
}

} // namespace sharding
} // namespace shale
