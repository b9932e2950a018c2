//===- PlanSharding.cpp - Lays out parameters over tensor axes ------------===//
#include "dialects/nn/Ops/State.h"
#include "lib/Support/Remarks.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/sharding/Layout.h"
#include "passes/sharding/Passes.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_PLANSHARDINGPASS
#include "passes/sharding/Passes.h.inc"

namespace {

/// What the forward pass does with the dimensions of a parameter.
struct DimUses {
  explicit DimUses(int64_t rank) : kept(rank), summed(rank) {}
  llvm::SmallBitVector kept;   ///< results have it
  llvm::SmallBitVector summed; ///< results are sums over it
  bool any() const { return kept.any() || summed.any(); }
};

/// Reads how a parameter is used. Products count; if there are none, all other uses.
class UseReader {
public:
  explicit UseReader(int64_t rank) : products(rank), others(rank) {}

  /// Follows `value`; its dimension d is dimension `dims[d]` of the parameter, or of none (-1).
  void follow(Value value, ArrayRef<int64_t> dims);
  const DimUses &uses() const { return products.any() ? products : others; }

private:
  void read(OpOperand &use, ArrayRef<int64_t> dims);
  DimUses products, others;
};

bool hasFactor(const TensorFactors &tensor, int64_t factor) {
  return llvm::any_of(tensor, [&](auto &factors) { return llvm::is_contained(factors, factor); });
}

} // namespace

/// Whether the op multiplies two operands and sums over a dimension that both have.
static bool isProduct(const ShardingRule &rule) {
  for (size_t factor = 0; factor < rule.factors.size(); ++factor) {
    auto hasIt = [&](const TensorFactors &operand) { return hasFactor(operand, factor); };
    if (rule.factors[factor].kind == FactorKind::Sum && llvm::count_if(rule.operands, hasIt) > 1)
      return true;
  }
  return false;
}

void UseReader::follow(Value value, ArrayRef<int64_t> dims) {
  for (OpOperand &use : value.getUses()) {
    Operation *op = use.getOwner();
    nn::PhaseAttr phase = nn::phaseOf(op);
    // Backward ops read the same parameters in other roles.
    if ((!phase || phase.getValue() == nn::Phase::Forward) && isa<ShardingRuleOpInterface>(op))
      read(use, dims);
  }
}

void UseReader::read(OpOperand &use, ArrayRef<int64_t> dims) {
  Operation *op = use.getOwner();
  ShardingRule rule = getRule(op);
  const TensorFactors &own = rule.operands[use.getOperandNumber()];
  if (op->getNumOperands() == 1 && op->getNumResults() == 1) { // a cast, a transpose, a view
    SmallVector<int64_t> next(rule.results[0].size(), -1);
    for (auto [d, dim] : llvm::enumerate(dims))
      for (auto [r, factors] : llvm::enumerate(rule.results[0]))
        if (dim >= 0 && !own[d].empty() && !factors.empty() && factors.front() == own[d].front())
          next[r] = dim;
    return follow(op->getResult(0), next);
  }
  DimUses &uses = isProduct(rule) ? products : others;
  for (auto [d, dim] : llvm::enumerate(dims)) {
    if (dim < 0 || own[d].empty())
      continue;
    int64_t factor = own[d].front();
    FactorKind kind = rule.factors[factor].kind;
    if (kind == FactorKind::Whole)
      continue;
    bool kept = llvm::any_of(
        rule.results, [&](const TensorFactors &result) { return hasFactor(result, factor); });
    if (kept)
      uses.kept.set(dim);
    else if (kind == FactorKind::Sum)
      uses.summed.set(dim);
  }
}

namespace {
/// Lays out the parameters of a module.
class Planner {
public:
  Planner(ModuleOp module, dist::MeshOp mesh) : module(module), mesh(mesh) {
    for (StringRef axis : axesByPriority(mesh))
      if (!mesh.isDataAxis(axis)) {
        axes.push_back(axis);
        ranks *= mesh.getSize(axis);
      }
  }
  LogicalResult run();

private:
  DimUses usesOf(nn::StateOp state);
  FailureOr<int64_t> dimensionOf(nn::StateOp state, dist::TensorSplit split);

  ModuleOp module;
  dist::MeshOp mesh;
  AxisList axes; ///< tensor axes
  int64_t ranks = 1;
};
} // namespace

DimUses Planner::usesOf(nn::StateOp state) {
  int64_t rank = state.getTensorType().getRank();
  UseReader reader(rank);
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments())
      if (nn::getState(argument) == state)
        reader.follow(argument, dims);
  return reader.uses();
}

/// Returns the dimension that tensor axes split, or -1. Fails after an error.
FailureOr<int64_t> Planner::dimensionOf(nn::StateOp state, dist::TensorSplit split) {
  DimUses uses = usesOf(state);
  bool column = split == dist::TensorSplit::Column;
  int found = column ? uses.kept.find_first() : uses.summed.find_first();
  // What is added to the outputs of a layer is added to their sum.
  if (found < 0 && !column && state.getTensorType().getRank() < 2)
    return -1;
  StringRef word = dist::stringifyTensorSplit(split);
  if (found < 0)
    return module.emitError("tensor: parameter '")
           << state.getSymName() << "' cannot be split by " << word << ": its uses "
           << (column ? "keep" : "sum over") << " none of its dimensions; use =whole";
  int64_t size = state.getTensorType().getDimSize(found);
  if (size % ranks != 0) {
    std::string sizes;
    for (int64_t n = 2; n <= std::min<int64_t>(size, 64); ++n)
      if (size % n == 0)
        sizes += (sizes.empty() ? "" : ", ") + std::to_string(n);
    return module.emitError("tensor: parameter '")
           << state.getSymName() << "' of " << state.getTensorType() << " cannot be split by "
           << word << " over " << ranks << " ranks: dimension " << found << " has " << size
           << " elements"
           << (sizes.empty() ? std::string("; use =whole")
                             : ", which divide over " + sizes + " ranks; or use =whole");
  }
  return found;
}

LogicalResult Planner::run() {
  MLIRContext *context = module.getContext();
  llvm::StringMap<dist::ShardingAttr> layouts;
  int64_t split = 0, local = 0;
  for (auto state : module.getOps<nn::StateOp>()) {
    auto wanted = state->getAttrOfType<dist::TensorSplitAttr>(dist::kTensorAttr);
    if (!wanted || wanted.getValue() == dist::TensorSplit::Whole)
      continue;
    FailureOr<int64_t> dim = dimensionOf(state, wanted.getValue());
    if (failed(dim))
      return failure();
    if (*dim < 0)
      continue;
    Layout layout = Layout::replicated(state.getTensorType().getRank());
    layout.dims[*dim] = axes;
    layouts[state.getSymName()] = layout.toAttr(context);
    split += state.getTensorType().getNumElements();
    local += state.getTensorType().getNumElements() / ranks;
  }
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments())
      if (nn::StateOp state = nn::getState(argument))
        if (auto it = layouts.find(state.getSymName()); it != layouts.end())
          function.setArgAttr(argument.getArgNumber(), dist::kShardingAttr, it->second);
  emitDecision(module.getLoc(), "plan-sharding",
               std::to_string(layouts.size()) + " parameters of " + std::to_string(split) +
                   " elements are split over tensor axes: " + std::to_string(local) + " per rank");
  return success();
}

namespace {
struct PlanShardingPass : impl::PlanShardingPassBase<PlanShardingPass> {
  using PlanShardingPassBase::PlanShardingPassBase;
  void runOnOperation() final {
    dist::MeshOp mesh = dist::getMesh(getOperation());
    if (!mesh || mesh.getRanksOf(dist::AxisKind::Tensor) == 1)
      return;
    if (failed(Planner(getOperation(), mesh).run()))
      signalPassFailure();
  }
};
} // namespace

} // namespace shale
