//===- PlanSharding.cpp - Lays out parameters over tensor axes ------------===//
#include "dialects/nn/Ops/State.h"
#include "lib/Analysis/Blocks.h"
#include "lib/Analysis/Modules.h"
#include "lib/Support/Remarks.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/sharding/OpenValues.h"
#include "passes/sharding/Parts.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/SearchMemo.h"
#include "passes/sharding/SplitClasses.h"
#include "passes/sharding/SplitUpdates.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include <map>

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_PLANSHARDINGPASS
#include "passes/sharding/Passes.h.inc"

namespace {

/// How the forward pass uses each dimension of a parameter.
struct DimUses {
  explicit DimUses(int64_t rank) : kept(rank), summed(rank) {}
  llvm::SmallBitVector kept;   ///< results have it
  llvm::SmallBitVector summed; ///< results are sums over it
  bool any() const { return kept.any() || summed.any(); }
};

/// Reads how a parameter is used. Matmuls count; if there are none, all other uses.
class UseReader {
public:
  explicit UseReader(int64_t rank) : matmuls(rank), others(rank) {}

  /// Follows `value`; its dimension d is dimension `dims[d]` of the parameter, or of none (-1).
  void follow(Value value, ArrayRef<int64_t> dims);
  const DimUses &uses() const { return matmuls.any() ? matmuls : others; }

private:
  void read(OpOperand &use, ArrayRef<int64_t> dims);
  DimUses matmuls, others;
};

} // namespace

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
  DimUses &uses = isMatmul(rule) ? matmuls : others;
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
/// A part of the step whose splits are chosen together: a block, or all that is in no block.
struct Region {
  std::string name;
  bool isBlock = true;
  SmallVector<Operation *> ops;
  SmallVector<TensorCandidate> candidates;
  SmallVector<nn::StateOp> states; ///< of the candidates
};

/// Regions of the same parameters, and how these are split.
struct Kind {
  SmallVector<Region *> alike;
  TensorChoice choice;
};

/// Lays out the parameters of a module.
class TensorPlanner {
public:
  TensorPlanner(ModuleOp module, dist::MeshOp mesh, bool exhaustive)
      : module(module), mesh(mesh), exhaustive(exhaustive) {
    for (StringRef axis : axesByPriority(mesh))
      if (mesh.splitsValues(axis)) {
        axes.push_back(axis);
        ranks *= mesh.getSize(axis);
      }
  }
  LogicalResult run();

private:
  FailureOr<TensorCandidate> candidateFor(nn::StateOp state, BlockArgument argument);
  LogicalResult checkTyped(nn::StateOp state, dist::TensorSplit split, int64_t dim,
                           const DimUses &uses);
  FailureOr<std::vector<Region>> regionsOf(func::FuncOp function);
  std::vector<Kind> search(MutableArrayRef<Region> regions, const OpenValues &open) const;
  TensorCost costOf(ArrayRef<Kind> kinds) const;
  void place(const Region &region, size_t number, const TensorChoice &choice);
  void report(const Region &region, const TensorChoice &choice, int64_t alike);
  void record(const Region &region, const TensorChoice &choice, size_t place,
              nn::StateOp state) const;
  LogicalResult refuseIdle();
  void warnOfWhole();

  ModuleOp module;
  dist::MeshOp mesh;
  bool exhaustive;
  AxisList axes; ///< tensor axes
  int64_t ranks = 1;
  llvm::StringMap<dist::ShardingAttr> layouts; ///< of split parameters
  /// Whether something is split that the user typed, or that needs no padding.
  bool splits = false;
  /// A dimension of each matrix that the ranks do not divide, as text.
  llvm::DenseMap<nn::StateOp, std::string> undivided;
  /// Why a matrix stays whole although nobody said so.
  llvm::MapVector<nn::StateOp, SplitEnd> whole;
};
} // namespace

/// Returns the function with the backward pass, else the first one.
static func::FuncOp functionToPlan(ModuleOp module) {
  auto functions = module.getOps<func::FuncOp>();
  for (auto function : functions)
    if (llvm::any_of(function.getOps(),
                     [](Operation &op) { return nn::isInPhase(&op, nn::Phase::Backward); }))
      return function;
  return functions.empty() ? func::FuncOp() : *functions.begin();
}

/// Returns why a matrix stays whole although a dimension divides. `chosen`: what the plan costs.
static SplitEnd whyWhole(ArrayRef<TensorOption> options, const TensorCost &chosen) {
  const TensorOption *best = nullptr;
  auto before = [](const TensorOption &a, const TensorOption &b) {
    return a.end.isUndivided != b.end.isUndivided ? a.end.isUndivided : a.cost < b.cost;
  };
  for (const TensorOption &option : options)
    if (option.dim >= 0 && (!best || before(option, *best)))
      best = &option;
  if (!best)
    return {"no op computes with a part of it", "", false};
  SplitEnd why = best->end;
  if (best->cost.gathered <= chosen.gathered)
    why = {"a split excludes that of other parameters, which leaves fewer elements whole", "",
           false};
  else
    why.text = "a split would gather activations" + (why.text.empty() ? "" : ": " + why.text);
  return why;
}

/// Fails after an error if a parameter cannot be split as the user asks.
LogicalResult TensorPlanner::checkTyped(nn::StateOp state, dist::TensorSplit split, int64_t dim,
                                        const DimUses &uses) {
  bool column = split == dist::TensorSplit::Column;
  // A bias of a row-split layer is added once, to the sum of the partial outputs: it stays whole.
  if (dim < 0 && !column && state.getTensorType().getRank() < 2)
    return success();
  StringRef word = dist::stringifyTensorSplit(split);
  if (dim < 0)
    return module.emitError("tensor: parameter '")
           << state.getSymName() << "' cannot be split by " << word << ": its uses "
           << (column ? "keep" : "sum over") << " none of its dimensions; use =whole";
  int64_t size = state.getTensorType().getDimSize(dim);
  if (size % ranks == 0)
    return success();
  bool divides = !divisorsOf(size).empty();
  return module.emitError("tensor: parameter '")
         << state.getSymName() << "' of " << state.getTensorType() << " cannot be split by " << word
         << " over " << ranks << " ranks: dimension " << dim << " has " << size << " elements"
         << (divides ? ", which " + divisionOf(size) + "; or use =whole"
                     : std::string("; use =whole"));
}

FailureOr<TensorCandidate> TensorPlanner::candidateFor(nn::StateOp state, BlockArgument argument) {
  int64_t rank = state.getTensorType().getRank();
  UseReader reader(rank);
  reader.follow(argument, llvm::to_vector(llvm::seq<int64_t>(0, rank)));
  const DimUses &uses = reader.uses();
  TensorCandidate candidate;
  candidate.argument = argument;
  auto typed = state->getAttrOfType<dist::TensorSplitAttr>(dist::kTensorAttr);
  auto dimOf = [&](int dim) {
    int64_t size = dim < 0 ? 0 : state.getTensorType().getDimSize(dim);
    if (size % ranks == 0)
      return dim;
    if (rank > 1)
      undivided.try_emplace(state, "dimension " + std::to_string(dim) + " has " +
                                       std::to_string(size) + " elements, which " +
                                       divisionOf(size));
    return -1;
  };
  candidate.kept = uses.kept;
  candidate.barred.resize(rank);
  // The axis of experts splits their number.
  TensorLayout own = getLayout(argument).value_or(TensorLayout::replicated(rank));
  for (int64_t dim = 0; dim < rank; ++dim) {
    TensorLayout layout = TensorLayout::replicated(rank);
    layout.dims[dim].assign(axes.begin(), axes.end());
    std::optional<std::string> why;
    if (!own.dims[dim].empty())
      why = ("axis '" + own.dims[dim].front().name + "' splits dimension " + Twine(dim)).str();
    else if (state.getTensorType().getDimSize(dim) % ranks == 0)
      why = whyNotSplit(state, layout, mesh);
    if (!why)
      continue;
    candidate.barred.set(dim);
    candidate.whyBarred = *why;
  }
  auto firstOf = [&](const llvm::SmallBitVector &dims) {
    for (unsigned dim : dims.set_bits())
      if (own.dims[dim].empty())
        return int(dim);
    return dims.find_first();
  };
  int column = firstOf(uses.kept), row = firstOf(uses.summed);
  int64_t columnDim = dimOf(column), rowDim = dimOf(row); // notes a size that does not divide
  if (!typed)
    return candidate;
  dist::TensorSplit split = typed.getValue();
  bool isColumn = split == dist::TensorSplit::Column;
  candidate.fixed = split == dist::TensorSplit::Whole ? -1 : isColumn ? columnDim : rowDim;
  if (split != dist::TensorSplit::Whole &&
      failed(checkTyped(state, split, isColumn ? column : row, uses)))
    return failure();
  if (*candidate.fixed >= 0 && candidate.barred.test(*candidate.fixed)) {
    if (candidate.isVector())
      candidate.fixed = -1; // as for those that nobody typed
    else
      return module.emitError("tensor: parameter '")
             << state.getSymName() << "' of " << state.getTensorType() << " cannot be split by "
             << dist::stringifyTensorSplit(split) << " over " << ranks
             << " ranks: " << candidate.whyBarred << "; use =whole, or --optimizer adamw";
  }
  return candidate;
}

/// Divides the function into blocks and the rest. A parameter belongs to the block of all ops that
/// read it, else to the rest.
FailureOr<std::vector<Region>> TensorPlanner::regionsOf(func::FuncOp function) {
  Blocks blocks(function, findBlocks(module));
  std::vector<Region> regions(blocks.names.size() + 1);
  for (auto [region, name] : llvm::zip(regions, blocks.names))
    region.name = name;
  regions.back().isBlock = blocks.names.empty(); // a model without blocks is one
  regions.back().name = blocks.names.empty() ? "the model" : "outside of blocks";
  auto at = [&](int block) -> Region & { return block < 0 ? regions.back() : regions[block]; };
  for (Operation &op : function.getBody().front().without_terminator())
    if (Propagation::passes(&op))
      at(blocks.of(&op)).ops.push_back(&op);
  for (BlockArgument argument : function.getArguments()) {
    nn::StateOp state = nn::getState(argument);
    if (!state || state.getRole() != nn::Role::Param)
      continue;
    int block = -2;
    for (Operation *user : argument.getUsers())
      if (Propagation::passes(user))
        block = block == -2 || block == blocks.of(user) ? blocks.of(user) : -1;
    FailureOr<TensorCandidate> candidate = candidateFor(state, argument);
    if (failed(candidate))
      return failure();
    at(block).candidates.push_back(*candidate);
    at(block).states.push_back(state);
  }
  return regions;
}

/// Returns a text that is the same for blocks of the same parameters, which are then split alike.
static std::string signatureOf(const Region &region) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (auto [state, candidate] : llvm::zip(region.states, region.candidates)) {
    os << nn::StateOp(state).getTensorType() << ',';
    for (unsigned dim : candidate.kept.set_bits())
      os << dim << ',';
    if (candidate.fixed)
      os << '=' << *candidate.fixed;
  }
  os << region.ops.size();
  return text;
}

/// Splits a parameter of a region along a dimension, or notes why it stays whole.
void TensorPlanner::place(const Region &region, size_t number, const TensorChoice &choice) {
  const TensorCandidate &candidate = region.candidates[number];
  nn::StateOp state = region.states[number];
  int64_t dim = choice.dims[number];
  if (dim < 0) {
    ArrayRef<TensorOption> options = choice.options[number];
    auto decided = state->getAttrOfType<StringAttr>(dist::kPlanAttr);
    StringRef why = decided ? decided.getValue() : StringRef();
    if (!candidate.fixed && why.consume_front(kStaysWhole)) {
      whole[state] = {why.str(), "", false};
      return;
    }
    if (!candidate.fixed && (options.empty() || !region.isBlock) && undivided.count(state))
      whole[state] = {undivided[state], "", true};
    else if (!candidate.fixed && !candidate.isVector() && candidate.barred.any())
      whole[state] = {candidate.whyBarred, "", true};
    // All matrices of a block take part in its matmuls; tables outside often stay whole.
    else if (!candidate.fixed && !candidate.isVector() && region.isBlock)
      whole[state] = whyWhole(options, choice.cost);
    return;
  }
  auto part = state->getAttrOfType<nn::PartAttr>(nn::kPartAttr);
  splits |= candidate.fixed || !part || part.getPadding() == 0;
  TensorLayout layout = getLayout(candidate.argument)
                            .value_or(TensorLayout::replicated(state.getTensorType().getRank()));
  layout.dims[dim].assign(axes.begin(), axes.end());
  layouts[state.getSymName()] = layout.toAttr(module.getContext());
}

static std::string textOf(const TensorCost &cost) {
  return std::to_string(cost.gathered) + " bytes gathered, " + std::to_string(cost.whole) +
         " elements whole, " + std::to_string(cost.reduced) + " bytes in " +
         std::to_string(cost.sums) + " sums";
}

void TensorPlanner::report(const Region &region, const TensorChoice &choice, int64_t alike) {
  std::string columns, rows;
  for (auto [state, candidate, dim] : llvm::zip(region.states, region.candidates, choice.dims)) {
    std::string &list = candidate.splitOf(dim) == dist::TensorSplit::Column ? columns : rows;
    if (dim >= 0)
      list += (list.empty() ? "" : ", ") + withinBlock(nn::StateOp(state).getSymName()).str();
  }
  std::string text = region.name;
  if (alike > 1)
    text += " and " + std::to_string(alike - 1) + " like it";
  text += ": column " + (columns.empty() ? "nothing" : columns) + "; row " +
          (rows.empty() ? "nothing" : rows) + "; " + textOf(choice.cost) + "; " +
          std::to_string(choice.tried) + " choices tried";
  emitDecision(module.getLoc(), "plan-sharding", text);
}

/// Records why the parameter at a place of a region is split as it is, for --why.
void TensorPlanner::record(const Region &region, const TensorChoice &choice, size_t place,
                           nn::StateOp state) const {
  const TensorCandidate &candidate = region.candidates[place];
  if (state->hasAttr(dist::kPlanAttr))
    return; // of a pass that has decided before
  MLIRContext *context = state.getContext();
  int64_t dim = choice.dims[place];
  std::string text =
      dim < 0 ? "whole on each rank" : "split along dimension " + std::to_string(dim);
  SmallVector<Attribute> costs;
  for (const TensorOption &option : choice.options[place])
    costs.push_back(dist::SplitCostAttr::get(
        context, candidate.splitOf(option.dim), option.cost.gathered, option.cost.whole,
        option.cost.reduced, option.cost.sums, option.dim == dim));
  if (candidate.fixed)
    text += ", as --tensor says";
  else if (costs.empty())
    text += candidate.isVector() ? ", as its uses need it" : ": no dimension divides";
  else
    text += (region.isBlock ? " (of " : " (") + region.name + ")";
  state->setAttr(dist::kPlanAttr, StringAttr::get(context, text));
  if (!candidate.fixed && !costs.empty())
    state->setAttr(dist::kPlanCostsAttr, ArrayAttr::get(context, costs));
}

/// Returns the name of the model's parameter that a state holds, or a part of which it holds.
static StringRef nameInModel(nn::StateOp state) {
  auto part = state->getAttrOfType<nn::PartAttr>(nn::kPartAttr);
  return part ? part.getWhole().getValue() : state.getSymName();
}

/// Fails: tensor axes would split nothing.
LogicalResult TensorPlanner::refuseIdle() {
  llvm::SetVector<StringRef> found;
  for (auto state : module.getOps<nn::StateOp>())
    if (state.getRole() == nn::Role::Param && state.getTensorType().getRank() > 1)
      found.insert(nameInModel(state));
  std::string names;
  for (StringRef name : found.getArrayRef().take_front(6))
    names += (names.empty() ? "'" : ", '") + name.str() + "'";
  llvm::SmallSetVector<StringRef, 4> sizes; // what does not divide
  for (auto &[state, why] : whole)
    if (why.isUndivided && sizes.size() < 3)
      sizes.insert(why.text);
  std::string reasons = sizes.empty() ? "" : " (" + llvm::join(sizes, "; ") + ")";
  return module.emitError("the ")
         << ranks
         << " ranks of the mesh's tensor axes would split nothing: no split of a parameter "
         << "divides without a gather of activations" << reasons
         << "; use another number, or fsdp=" << ranks
         << "; or name parameters, as in --tensor 'up=column,down=row'; this model has " << names;
}

/// Warns of matrices that are not split although the user did not say so, by reason.
void TensorPlanner::warnOfWhole() {
  constexpr int most = 4;
  struct List {
    SplitEnd first;
    int count = 0;
    std::string names;
  };
  std::map<std::string, List> lists; // by the text of the reason
  for (auto &[state, why] : whole) {
    List &list = lists.try_emplace(why.text, List{why, 0, ""}).first->second;
    if (list.count++ < most)
      list.names += (list.names.empty() ? "'" : ", '") + nameInModel(state).str() + "'";
  }
  for (auto &[why, list] : lists) {
    if (list.count > most)
      list.names += " and " + std::to_string(list.count - most) + " more";
    module.emitWarning("each of the ")
        << ranks << " tensor ranks holds all of " << list.names << ": " << why
        << (list.first.node.empty() ? "" : " (node '" + list.first.node + "')") << "; use "
        << (list.first.isUndivided ? "another number of tensor ranks, or " : "")
        << "--tensor 'NAME=whole' if that is meant";
  }
}

/// Searches the splits of each kind of region.
std::vector<Kind> TensorPlanner::search(MutableArrayRef<Region> regions,
                                        const OpenValues &open) const {
  std::map<std::string, Kind> bySignature;
  for (Region &region : regions)
    if (!region.candidates.empty())
      bySignature[signatureOf(region)].alike.push_back(&region);
  auto *memo = mesh->getDialect()->getRegisteredInterface<SearchMemo>();
  std::vector<Kind> kinds;
  for (auto &[signature, kind] : bySignature) {
    Region &first = *kind.alike.front();
    kind.choice =
        memo ? memo->search(mesh, axes, first.ops, first.candidates, open, exhaustive)
             : searchTensorSplits(mesh, axes, first.ops, first.candidates, open, exhaustive);
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

/// Whether a matrix of a block that could be split stays whole although nobody said so.
static bool leavesWhole(ArrayRef<Kind> kinds) {
  return llvm::any_of(kinds, [](const Kind &kind) {
    return kind.alike.front()->isBlock &&
           llvm::any_of(llvm::zip(kind.choice.dims, kind.choice.options), [](auto pair) {
             auto &[dim, options] = pair;
             return dim < 0 && !options.empty();
           });
  });
}

/// Computes the cost of the step with these splits.
TensorCost TensorPlanner::costOf(ArrayRef<Kind> kinds) const {
  SmallVector<Operation *> ops;
  SmallVector<TensorCandidate> candidates;
  for (const Kind &kind : kinds)
    for (Region *region : kind.alike) {
      llvm::append_range(ops, region->ops);
      for (auto [candidate, dim] : llvm::zip(region->candidates, kind.choice.dims)) {
        candidates.push_back(candidate);
        candidates.back().fixed = dim;
      }
    }
  llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return costOfTensorSplits(mesh, axes, ops, candidates);
}

LogicalResult TensorPlanner::run() {
  func::FuncOp function = functionToPlan(module);
  if (!function)
    return success();
  FailureOr<std::vector<Region>> regions = regionsOf(function);
  if (failed(regions))
    return failure();
  std::vector<Kind> kinds = search(*regions, {});
  if (leavesWhole(kinds)) {
    std::vector<Kind> open = search(*regions, openValuesOf(function));
    if (costOf(open) < costOf(kinds))
      kinds = std::move(open);
  }
  for (auto &[alike, choice] : kinds) {
    Region &first = *alike.front();
    report(first, choice, alike.size());
    for (Region *region : alike)
      for (auto [i, state, dim] : llvm::enumerate(region->states, choice.dims)) {
        place(*region, i, choice);
        record(first, choice, i, state);
      }
  }
  if (!splits)
    return refuseIdle();
  warnOfWhole();
  for (auto other : module.getOps<func::FuncOp>())
    for (BlockArgument argument : other.getArguments())
      if (nn::StateOp state = nn::getState(argument))
        if (auto it = layouts.find(state.getSymName()); it != layouts.end())
          other.setArgAttr(argument.getArgNumber(), dist::kShardingAttr, it->second);
  return success();
}

namespace {
struct PlanShardingPass : impl::PlanShardingPassBase<PlanShardingPass> {
  using PlanShardingPassBase::PlanShardingPassBase;
  void runOnOperation() final {
    dist::MeshOp mesh = dist::getMesh(getOperation());
    if (!mesh || mesh.getRanksThat(dist::splitsValues) == 1)
      return;
    if (failed(TensorPlanner(getOperation(), mesh, exhaustive).run()))
      signalPassFailure();
  }
};
} // namespace

} // namespace shale
