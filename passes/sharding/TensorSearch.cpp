//===- TensorSearch.cpp - What tensor axes split in a part of the step ----===//
#include "passes/sharding/TensorSearch.h"
#include "llvm/ADT/DenseSet.h"
#include <map>

using namespace mlir;

namespace shale {
inline namespace sharding {

namespace {

/// The most choices that are all tried.
constexpr int64_t kMostChoices = 256;
/// How far apart two classes are that change together.
constexpr size_t kNeighbours = 3;

/// Which classes are split.
using Chosen = llvm::SmallBitVector;

class ClassSearch {
public:
  ClassSearch(dist::MeshOp mesh, const AxisList &axes, ArrayRef<Operation *> ops,
              ArrayRef<TensorCandidate> candidates, const OpenValues &open)
      : mesh(mesh), axes(axes), candidates(candidates), open(open), propagation(mesh, axes, ops),
        inside(ops.begin(), ops.end()) {}
  TensorChoice run(ArrayRef<Operation *> ops, bool exhaustive);
  /// Computes the cost of the fixed splits.
  TensorCost costOfFixed() { return evaluate({}).cost; }

private:
  int64_t ranks();
  void splitEach();
  void findConflicts();
  /// Whether a class may be split besides the chosen ones.
  bool isFree(size_t number, const Chosen &chosen) const {
    return !leftOut.test(number) && !chosen.anyCommon(conflicts[number]);
  }
  int64_t countChoices(size_t next, const Chosen &taken) const;
  Chosen with(Chosen chosen, size_t added) const;
  TensorLayout layoutFor(size_t candidate, int64_t dim) const;
  int64_t dimOfReads(Value argument) const;
  const TensorChoice &evaluate(const Chosen &chosen);
  void compareOptions();
  TensorCost costNow(ArrayRef<int64_t> dims) const;
  bool consider(const Chosen &chosen);
  void leaveOutGathers();
  void tryAll(size_t next, const Chosen &chosen);
  void improve();
  void splitNorms(ArrayRef<Operation *> ops);

  dist::MeshOp mesh;
  AxisList axes;
  ArrayRef<TensorCandidate> candidates;
  const OpenValues &open;
  Propagation propagation;
  llvm::DenseSet<Operation *> inside;
  std::vector<SplitClass> classes;
  /// For each class: the classes that split one of its parameters along another dimension.
  std::vector<Chosen> conflicts;
  Chosen leftOut;
  bool splitsNorms = false; ///< whether choices may split rows of norms
  int64_t tried = 0;        ///< number of choices before these might
  /// The choices whose costs were computed, by their classes.
  std::map<std::vector<unsigned>, TensorChoice> evaluated;
  Chosen bestChosen;
  TensorChoice best;
};

} // namespace

int64_t ClassSearch::ranks() {
  int64_t ranks = 1;
  for (StringRef axis : axes)
    ranks *= mesh.getSize(axis);
  return ranks;
}

/// Makes a class of each dimension of each parameter.
void ClassSearch::splitEach() {
  classes.clear();
  for (auto [number, candidate] : llvm::enumerate(candidates)) {
    if (candidate.fixed || candidate.isVector())
      continue;
    auto type = cast<RankedTensorType>(candidate.argument.getType());
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      if (candidate.divides(dim, ranks()))
        classes.push_back({{{number, dim}}, nullptr, {}});
  }
}

void ClassSearch::findConflicts() {
  leftOut.resize(classes.size());
  conflicts.assign(classes.size(), Chosen(classes.size()));
  auto differ = [](const SplitClass &one, const SplitClass &other) {
    return llvm::any_of(one.dims, [&](auto &each) {
      int64_t dim = other.dimOf(each.first);
      return dim >= 0 && dim != each.second;
    });
  };
  for (size_t a = 0; a < classes.size(); ++a)
    for (size_t b = 0; b < classes.size(); ++b)
      if (a != b && differ(classes[a], classes[b]))
        conflicts[a].set(b);
}

/// Returns how many sets of classes there are that agree with `taken`, at most kMostChoices + 1.
int64_t ClassSearch::countChoices(size_t next, const Chosen &taken) const {
  if (next == classes.size())
    return 1;
  int64_t count = countChoices(next + 1, taken);
  if (count <= kMostChoices && isFree(next, taken)) {
    Chosen with = taken;
    count += countChoices(next + 1, with.set(next));
  }
  return std::min(count, kMostChoices + 1);
}

/// Splits a class, and what it conflicts with no more.
Chosen ClassSearch::with(Chosen chosen, size_t added) const {
  chosen.reset(conflicts[added]);
  return chosen.set(added);
}

TensorLayout ClassSearch::layoutFor(size_t candidate, int64_t dim) const {
  auto type = cast<RankedTensorType>(candidates[candidate].argument.getType());
  TensorLayout layout = TensorLayout::replicated(type.getRank());
  if (dim >= 0)
    layout.dims[dim].assign(axes.begin(), axes.end());
  return layout;
}

/// Returns the dimension that all ops which read the argument want split; -1 if there is none.
int64_t ClassSearch::dimOfReads(Value argument) const {
  int64_t common = -2;
  propagation.forReads([&](OpOperand &operand, const TensorLayout &, const TensorLayout &read) {
    if (operand.get() != argument)
      return;
    int64_t dim = -1;
    for (auto [d, list] : llvm::enumerate(read.dims))
      if (llvm::equal(list, axes,
                      [](const DimAxis &one, StringRef axis) { return one == DimAxis(axis); }))
        dim = d;
    common = common == -2 || common == dim ? dim : -1;
  });
  return std::max<int64_t>(common, -1);
}

/// Returns what splitting these classes costs; computes it once.
const TensorChoice &ClassSearch::evaluate(const Chosen &chosen) {
  std::vector<unsigned> key(chosen.set_bits_begin(), chosen.set_bits_end());
  auto [found, isNew] = evaluated.try_emplace(std::move(key));
  TensorChoice &choice = found->second;
  if (!isNew)
    return choice;
  for (const TensorCandidate &candidate : candidates)
    choice.dims.push_back(candidate.fixed.value_or(-1));
  for (unsigned number : chosen.set_bits())
    for (auto [candidate, dim] : classes[number].dims)
      choice.dims[candidate] = dim;
  auto propagate = [&] {
    for (auto [i, candidate] : llvm::enumerate(candidates)) {
      TensorLayout layout = layoutFor(i, choice.dims[i]);
      propagation.fix(candidate.argument, layout);
      for (Operation *user : BlockArgument(candidate.argument).getUsers())
        if (auto update = dyn_cast<OptimizerUpdateOpInterface>(user);
            update && update.getParameterOperand().get() == candidate.argument)
          propagation.want(update.getGradientOperand().get(), layout);
    }
    propagation.run();
  };
  propagation.splitsNorms = splitsNorms;
  propagate();
  bool follow = false;
  for (auto [i, candidate] : llvm::enumerate(candidates)) {
    if (!candidate.isVector() || candidate.fixed)
      continue;
    int64_t dim = dimOfReads(candidate.argument);
    choice.dims[i] = dim >= 0 && candidate.divides(dim, ranks()) ? dim : -1;
    follow |= choice.dims[i] >= 0;
  }
  propagation.splitsNorms = false;
  if (follow || splitsNorms)
    propagate();
  choice.cost = costNow(choice.dims);
  return choice;
}

/// Adds what it costs to read `value` in another layout than it has.
static void addTransition(Value value, const TensorLayout &have, const TensorLayout &read,
                          const AxisList &axes, TensorCost &cost) {
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

/// Adds what an op sends whose factor is split and kept by a result, but that reduces over it on
/// the way, as norms do: the largest value that lacks the factor.
static void addExchange(Operation *op, const ShardingRule &rule, const Assignment &assignment,
                        const AxisList &axes, TensorCost &cost) {
  for (StringRef axis : axes) {
    int64_t factor = assignment.factorOf(axis);
    if (factor < 0 || !isExchanged(rule, factor))
      continue;
    int64_t bytes = 0;
    auto measure = [&](Value value, const TensorFactors &tensor) {
      if (!hasFactor(tensor, factor))
        bytes = std::max(bytes, nn::tensorBytes(value));
    };
    for (auto [value, tensor] : llvm::zip_equal(op->getOperands(), rule.operands))
      measure(value, tensor);
    for (auto [value, tensor] : llvm::zip_equal(op->getResults(), rule.results))
      measure(value, tensor);
    cost.reduced += bytes;
    ++cost.sums;
  }
}

TensorCost ClassSearch::costNow(ArrayRef<int64_t> dims) const {
  TensorCost cost;
  llvm::DenseMap<Value, SmallVector<TensorLayout, 1>> counted;
  auto read = [&](Value value, const TensorLayout &have, const TensorLayout &wanted) {
    SmallVector<TensorLayout, 1> &known = counted[value];
    if (have == wanted || llvm::is_contained(known, wanted))
      return;
    known.push_back(wanted);
    addTransition(value, have, wanted, axes, cost);
  };
  propagation.forReads([&](OpOperand &operand, const TensorLayout &have,
                           const TensorLayout &wanted) { read(operand.get(), have, wanted); });
  propagation.forOps([&](Operation *op, const ShardingRule &rule, const Assignment &assignment) {
    addExchange(op, rule, assignment, axes, cost);
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
        TensorLayout wanted = TensorLayout::replicated(type ? type.getRank() : 0);
        if (auto update = dyn_cast<OptimizerUpdateOpInterface>(user)) {
          // A gradient has the layout of its parameter.
          auto place = places.find(update.getParameterOperand().get());
          if (place != places.end() && candidates[place->second].isVector() &&
              candidates[place->second].barred.any())
            continue; // is gathered: a few bytes, which no other split avoids
          if (place != places.end())
            wanted = layoutFor(place->second, dims[place->second]);
        } else if (isa<GradientPartsOpInterface>(user)) {
          continue; // of parts, as the update
        }
        read(result, propagation.layoutOf(result), wanted);
      }
  return cost;
}

bool ClassSearch::consider(const Chosen &chosen) {
  const TensorChoice &choice = evaluate(chosen);
  // Norms are split for parameters that stay whole, and not to save a gather that the user asks
  // for.
  if (!(choice.cost < best.cost) || (splitsNorms && choice.cost.gathered != best.cost.gathered))
    return false;
  best = choice;
  bestChosen = chosen;
  return true;
}

/// Leaves out the classes that gather values by themselves: they do beside others, too.
void ClassSearch::leaveOutGathers() {
  Chosen none(classes.size());
  int64_t least = evaluate(none).cost.gathered;
  for (size_t number = 0; number < classes.size(); ++number) {
    if (Chosen one = none; evaluate(one.set(number)).cost.gathered > least)
      leftOut.set(number);
  }
}

/// Tries all sets of classes that have those of `chosen`, and others from `next` on.
void ClassSearch::tryAll(size_t next, const Chosen &chosen) {
  if (next == classes.size()) {
    consider(chosen);
    return;
  }
  if (chosen.test(next))
    return tryAll(next + 1, chosen);
  if (isFree(next, chosen)) {
    Chosen with = chosen;
    tryAll(next + 1, with.set(next));
  }
  tryAll(next + 1, chosen);
}

/// From a choice that splits nothing on, changes one class or two neighbours while that helps.
void ClassSearch::improve() {
  consider(Chosen(classes.size()));
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < classes.size(); ++i)
      for (size_t j = i; j < std::min(classes.size(), i + kNeighbours + 1); ++j) {
        if (leftOut.test(i) || leftOut.test(j))
          continue;
        auto changeOf = [&](Chosen chosen, size_t number) {
          return chosen.test(number) ? chosen.reset(number) : with(chosen, number);
        };
        Chosen other = changeOf(bestChosen, i);
        changed |= consider(i == j ? other : changeOf(other, j));
      }
  }
}

/// Adds classes that reach through norms to the best choice, one by one, while that helps.
void ClassSearch::splitNorms(ArrayRef<Operation *> ops) {
  llvm::append_range(classes,
                     findSplitClasses(ops, candidates, open, ranks(), mesh.getSize(axes.front()),
                                      /*throughNorms=*/true));
  leftOut.reset();
  findConflicts();
  bestChosen.resize(classes.size());
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t number = 0; number < classes.size(); ++number)
      if (Chosen more = bestChosen; !more.test(number) && isFree(number, bestChosen))
        changed |= consider(more.set(number));
  }
}

/// Computes what other ways to split each parameter cost beside the best choice.
void ClassSearch::compareOptions() {
  best.options.resize(candidates.size());
  for (size_t candidate = 0; candidate < candidates.size(); ++candidate) {
    Chosen without = bestChosen;
    for (size_t number = 0; number < classes.size(); ++number) {
      int64_t dim = classes[number].dimOf(candidate);
      if (dim < 0)
        continue;
      without.reset(number);
      bool isChosen = dim == best.dims[candidate];
      TensorOption option{dim, isChosen ? best.cost : evaluate(with(bestChosen, number)).cost,
                          classes[number].end};
      // A class that reaches through norms splits the same dimension with others than one that
      // ends at norms.
      auto isSame = [&](const TensorOption &known) { return known.dim == dim; };
      auto known = llvm::find_if(best.options[candidate], isSame);
      if (known == best.options[candidate].end())
        best.options[candidate].push_back(std::move(option));
      else if (option.cost < known->cost)
        *known = std::move(option);
    }
    if (!best.options[candidate].empty())
      best.options[candidate].push_back({-1, evaluate(without).cost, {}});
    llvm::stable_sort(best.options[candidate], [&](const TensorOption &a, const TensorOption &b) {
      return candidates[candidate].splitOf(a.dim) < candidates[candidate].splitOf(b.dim);
    });
  }
}

TensorChoice ClassSearch::run(ArrayRef<Operation *> ops, bool exhaustive) {
  best.cost.gathered = INT64_MAX;
  if (exhaustive)
    splitEach();
  else
    classes = findSplitClasses(ops, candidates, open, ranks(), mesh.getSize(axes.front()));
  findConflicts();
  if (!exhaustive)
    leaveOutGathers();
  Chosen none(classes.size());
  if (exhaustive || countChoices(0, none) <= kMostChoices)
    tryAll(0, none);
  else
    improve();
  // A split of rows of norms for its own sake would take the place of one that sends less.
  splitsNorms = true;
  tried = evaluated.size();
  evaluated.clear();
  if (exhaustive)
    tryAll(0, Chosen(bestChosen)); // which changes bestChosen
  else
    splitNorms(ops);
  best.tried = tried + evaluated.size();
  compareOptions();
  return std::move(best);
}

TensorChoice searchTensorSplits(dist::MeshOp mesh, const AxisList &axes, ArrayRef<Operation *> ops,
                                ArrayRef<TensorCandidate> candidates, const OpenValues &open,
                                bool exhaustive) {
  return ClassSearch(mesh, axes, ops, candidates, open).run(ops, exhaustive);
}

TensorCost costOfTensorSplits(dist::MeshOp mesh, const AxisList &axes, ArrayRef<Operation *> ops,
                              ArrayRef<TensorCandidate> candidates) {
  OpenValues none;
  return ClassSearch(mesh, axes, ops, candidates, none).costOfFixed();
}

} // namespace sharding
} // namespace shale
