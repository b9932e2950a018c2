//===- TensorSearch.cpp - What tensor axes split in a part of the step ----===//
#include "passes/sharding/TensorSearch.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace shale {
inline namespace sharding {

namespace {

/// The most decisions with several options of which all combinations are tried.
constexpr int64_t kMostExhaustive = 5;
/// How far apart two decisions are that change together.
constexpr size_t kNeighbours = 3;

/// Candidates that are split alike.
struct Decision {
  SmallVector<size_t, 4> members;
  Operation *reader = nullptr; ///< the first op that reads one of them; null if none does
  SmallVector<dist::TensorSplit, 3> options;
};

class Search {
public:
  Search(dist::MeshOp mesh, const AxisList &axes, ArrayRef<Operation *> ops,
         ArrayRef<TensorCandidate> candidates, const OpenValues &open, bool exhaustive)
      : axes(axes), candidates(candidates), open(open), exhaustive(exhaustive),
        propagation(mesh, axes, ops), inside(ops.begin(), ops.end()) {
    decide();
  }
  TensorChoice run();
  /// Computes the cost of the first option of each decision.
  TensorCost costOfFirst() { return evaluate(SmallVector<size_t>(decisions.size(), 0)).cost; }

private:
  void decide();
  Operation *firstReader(ArrayRef<size_t> members) const;
  Layout layoutFor(size_t candidate, int64_t dim) const;
  int64_t dimOfReads(Value argument) const;
  TensorChoice evaluate(ArrayRef<size_t> chosen);
  void compareOptions(TensorChoice &best);
  TensorCost costNow(ArrayRef<int64_t> dims) const;
  bool consider(ArrayRef<size_t> chosen, TensorChoice &best);
  void tryAll(TensorChoice &best);
  void improve(TensorChoice &best);

  AxisList axes;
  ArrayRef<TensorCandidate> candidates;
  const OpenValues &open;
  bool exhaustive;
  Propagation propagation;
  llvm::DenseSet<Operation *> inside;
  SmallVector<Decision> decisions;
  int64_t tried = 0;
};

} // namespace

/// Returns what the first product that reads the parameter multiplies it with; null if there is
/// none.
static Value partnerOf(Value parameter, const llvm::DenseSet<Operation *> &inside) {
  SmallVector<Value> work{parameter};
  while (!work.empty()) {
    Value value = work.pop_back_val();
    for (OpOperand &use : value.getUses()) {
      Operation *op = use.getOwner();
      if (!inside.contains(op) || nn::isInPhase(op, nn::Phase::Backward))
        continue;
      if (op->getNumOperands() == 1 && op->getNumResults() == 1)
        work.push_back(op->getResult(0));
      else if (op->getNumOperands() == 2)
        return rootOf(op->getOperand(1 - use.getOperandNumber()));
    }
  }
  return {};
}

/// Returns the first op that reads one of the members; null if none does.
Operation *Search::firstReader(ArrayRef<size_t> members) const {
  Operation *first = nullptr;
  for (size_t member : members)
    for (Operation *user : BlockArgument(candidates[member].argument).getUsers())
      if (inside.contains(user) && (!first || user->isBeforeInBlock(first)))
        first = user;
  return first;
}

void Search::decide() {
  llvm::MapVector<Value, Decision> alike;
  for (auto [i, candidate] : llvm::enumerate(candidates)) {
    using dist::TensorSplit;
    if (candidate.typed) {
      decisions.push_back({{i}, nullptr, {*candidate.typed}});
      continue;
    }
    if (candidate.isVector() || (candidate.column < 0 && candidate.row < 0))
      continue;
    Value partner = exhaustive ? Value() : partnerOf(candidate.argument, inside);
    Decision &decision = alike[partner ? partner : Value(candidate.argument)];
    decision.members.push_back(i);
    decision.options = {TensorSplit::Column, TensorSplit::Row, TensorSplit::Whole};
  }
  for (auto &[partner, decision] : alike)
    decisions.push_back(std::move(decision));
  for (Decision &decision : decisions)
    decision.reader = firstReader(decision.members);
  // Neighbours follow one another in the program. Parts of a parameter are not beside it.
  llvm::stable_sort(decisions, [](const Decision &a, const Decision &b) {
    bool both = a.reader && b.reader && a.reader != b.reader;
    return both ? a.reader->isBeforeInBlock(b.reader) : a.reader && !b.reader;
  });
}

Layout Search::layoutFor(size_t candidate, int64_t dim) const {
  auto type = cast<RankedTensorType>(candidates[candidate].argument.getType());
  Layout layout = Layout::replicated(type.getRank());
  if (dim >= 0)
    layout.dims[dim] = axes;
  return layout;
}

/// Returns the dimension that all ops which read the argument want split; -1 if there is none.
int64_t Search::dimOfReads(Value argument) const {
  int64_t common = -2;
  propagation.forReads([&](OpOperand &operand, const Layout &, const Layout &read) {
    if (operand.get() != argument)
      return;
    int64_t dim = -1;
    for (auto [d, list] : llvm::enumerate(read.dims))
      if (list == axes)
        dim = d;
    common = common == -2 || common == dim ? dim : -1;
  });
  return std::max<int64_t>(common, -1);
}

/// Computes the cost of an option for each decision.
TensorChoice Search::evaluate(ArrayRef<size_t> chosen) {
  TensorChoice choice;
  choice.dims.assign(candidates.size(), -1);
  for (auto [decision, option] : llvm::zip_equal(decisions, chosen))
    for (size_t member : decision.members)
      choice.dims[member] = candidates[member].dimOf(decision.options[option]);
  auto propagate = [&] {
    for (auto [i, candidate] : llvm::enumerate(candidates)) {
      Layout layout = layoutFor(i, choice.dims[i]);
      propagation.fix(candidate.argument, layout);
      for (Operation *user : BlockArgument(candidate.argument).getUsers())
        if (auto update = dyn_cast<OptimizerUpdateOpInterface>(user);
            update && update.getParameterOperand().get() == candidate.argument)
          propagation.want(update.getGradientOperand().get(), layout);
    }
    propagation.run();
  };
  propagate();
  bool follow = false;
  for (auto [i, candidate] : llvm::enumerate(candidates)) {
    if (!candidate.isVector() || candidate.typed)
      continue;
    choice.dims[i] = dimOfReads(candidate.argument);
    follow |= choice.dims[i] >= 0;
  }
  if (follow)
    propagate();
  choice.cost = costNow(choice.dims);
  ++tried;
  return choice;
}

/// Adds what it costs to read `value` in another layout than it has.
static void addTransition(Value value, const Layout &have, const Layout &read, const AxisList &axes,
                          TensorCost &cost) {
  int64_t bytes = nn::tensorBytes(value);
  for (StringRef axis : axes) {
    int64_t from = have.dimOf(axis), to = read.dimOf(axis);
    if (have.partialOn(axis) && !read.partialOn(axis)) {
      cost.reduced += bytes;
      ++cost.sums;
    } else if (from >= 0 && from != to) {
      cost.gathered += bytes;
    }
  }
}

TensorCost Search::costNow(ArrayRef<int64_t> dims) const {
  TensorCost cost;
  llvm::DenseMap<Value, SmallVector<Layout, 1>> counted;
  auto read = [&](Value value, const Layout &have, const Layout &wanted) {
    SmallVector<Layout, 1> &known = counted[value];
    if (have == wanted || llvm::is_contained(known, wanted))
      return;
    known.push_back(wanted);
    addTransition(value, have, wanted, axes, cost);
  };
  propagation.forReads([&](OpOperand &operand, const Layout &have, const Layout &wanted) {
    read(operand.get(), have, wanted);
  });
  llvm::DenseMap<Value, size_t> places;
  for (auto [i, candidate] : llvm::enumerate(candidates)) {
    places[candidate.argument] = i;
    if (dims[i] < 0)
      cost.whole += nn::elements(candidate.argument);
  }
  for (Operation *op : inside)
    for (Value result : op->getResults())
      for (OpOperand &use : result.getUses()) {
        Operation *user = use.getOwner();
        if (inside.contains(user) || open.contains(result))
          continue;
        auto type = dyn_cast<RankedTensorType>(result.getType());
        Layout wanted = Layout::replicated(type ? type.getRank() : 0);
        if (auto update = dyn_cast<OptimizerUpdateOpInterface>(user)) {
          // A gradient has the layout of its parameter.
          auto place = places.find(update.getParameterOperand().get());
          if (place != places.end())
            wanted = layoutFor(place->second, dims[place->second]);
        } else if (isa<GradientPartsOpInterface>(user)) {
          continue; // of parts, as the update
        }
        read(result, propagation.layoutOf(result), wanted);
      }
  return cost;
}

bool Search::consider(ArrayRef<size_t> chosen, TensorChoice &best) {
  TensorChoice choice = evaluate(chosen);
  if (!(choice.cost < best.cost))
    return false;
  best = std::move(choice);
  return true;
}

void Search::tryAll(TensorChoice &best) {
  SmallVector<size_t> chosen(decisions.size(), 0);
  for (size_t d = 0; d < decisions.size();) {
    consider(chosen, best);
    for (d = 0; d < decisions.size() && ++chosen[d] == decisions[d].options.size(); ++d)
      chosen[d] = 0;
  }
}

/// From a choice that splits nothing on, changes one decision or two neighbours while that helps.
void Search::improve(TensorChoice &best) {
  SmallVector<size_t> chosen;
  for (const Decision &decision : decisions)
    chosen.push_back(decision.options.size() - 1);
  best = evaluate(chosen);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < decisions.size(); ++i)
      for (size_t j = i; j < std::min(decisions.size(), i + kNeighbours + 1); ++j)
        for (size_t a = 0; a < decisions[i].options.size(); ++a)
          for (size_t b = 0; b < decisions[j].options.size(); ++b) {
            SmallVector<size_t> other = chosen;
            other[i] = a;
            other[j] = i == j ? a : b;
            if (other == chosen || (i == j && b > 0) || !consider(other, best))
              continue;
            chosen = other;
            changed = true;
          }
  }
}

/// Computes what the options of each decision cost beside the best choice.
void Search::compareOptions(TensorChoice &best) {
  best.options.resize(candidates.size());
  SmallVector<size_t> chosen;
  for (const Decision &decision : decisions) {
    size_t member = decision.members.front(), option = 0;
    while (option + 1 < decision.options.size() &&
           candidates[member].dimOf(decision.options[option]) != best.dims[member])
      ++option;
    chosen.push_back(option);
  }
  for (auto [d, decision] : llvm::enumerate(decisions)) {
    SmallVector<size_t> other = chosen;
    for (auto [o, split] : llvm::enumerate(decision.options)) {
      other[d] = o;
      TensorCost cost = evaluate(other).cost;
      for (size_t member : decision.members)
        best.options[member].emplace_back(split, cost);
    }
  }
}

TensorChoice Search::run() {
  TensorChoice best;
  best.cost.gathered = INT64_MAX;
  if (decisions.empty())
    best = evaluate({});
  else if (exhaustive || llvm::count_if(decisions, [](const Decision &decision) {
                           return decision.options.size() > 1;
                         }) <= kMostExhaustive)
    tryAll(best);
  else
    improve(best);
  best.tried = tried;
  compareOptions(best);
  return best;
}

TensorChoice searchTensorSplits(dist::MeshOp mesh, const AxisList &axes, ArrayRef<Operation *> ops,
                                ArrayRef<TensorCandidate> candidates, const OpenValues &open,
                                bool exhaustive) {
  return Search(mesh, axes, ops, candidates, open, exhaustive).run();
}

TensorCost costOfTensorSplits(dist::MeshOp mesh, const AxisList &axes, ArrayRef<Operation *> ops,
                              ArrayRef<TensorCandidate> candidates) {
  OpenValues none;
  return Search(mesh, axes, ops, candidates, none, /*exhaustive=*/false).costOfFirst();
}

} // namespace sharding
} // namespace shale
