//===- SplitClasses.cpp - Dimensions of parameters that are split together -===//
//
// The factors of ops, and the dimensions of parameters, are joined where one is read as the other:
// what remains apart can be split apart. These are the equivalence classes of Shardy's factors
// (openxla/shardy, docs/propagation) without conflicts.
//
//===----------------------------------------------------------------------===//
#include "passes/sharding/SplitClasses.h"
#include "lib/Analysis/Timeline.h"
#include "passes/sharding/TensorLayout.h"
#include "passes/sharding/TensorSearch.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace shale {
inline namespace sharding {

int64_t SplitClass::dimOf(size_t candidate) const {
  for (auto [number, dim] : dims)
    if (number == candidate)
      return dim;
  return -1;
}

std::string divisorsOf(int64_t size) {
  constexpr int64_t most = 64;
  std::string sizes;
  for (int64_t n = 2; n <= std::min<int64_t>(size, most); ++n)
    if (size % n == 0)
      sizes += (sizes.empty() ? "" : ", ") + std::to_string(n);
  return sizes;
}

std::string divisionOf(int64_t size) {
  std::string sizes = divisorsOf(size);
  return sizes.empty() ? "no number of ranks divides" : "divide over " + sizes + " ranks";
}

namespace {

class ClassFinder {
public:
  ClassFinder(ArrayRef<Operation *> list, ArrayRef<TensorCandidate> candidates,
              const OpenValues &open, int64_t ranks, int64_t first, bool throughNorms)
      : candidates(candidates), open(open), ranks(ranks), first(first), throughNorms(throughNorms),
        inside(list.begin(), list.end()) {
    for (Operation *op : list)
      if (!nn::isInPhase(op, nn::Phase::Backward))
        add(op);
    for (const TensorCandidate &candidate : candidates) {
      firstDims.push_back(size);
      size += sizesOf(candidate).size();
    }
  }
  std::vector<SplitClass> find();

private:
  /// The rule of an op, and the number of its first factor among all.
  struct Rule {
    Operation *op;
    ShardingRule rule;
    unsigned begin;
  };

  static ArrayRef<int64_t> sizesOf(const TensorCandidate &candidate) {
    return cast<RankedTensorType>(candidate.argument.getType()).getShape();
  }
  void add(Operation *op) {
    numbers[op] = rules.size();
    rules.push_back({op, getRule(op), size});
    size += rules.back().rule.factors.size();
  }
  const Rule *ruleOf(Operation *op) const {
    auto found = numbers.find(op);
    return found == numbers.end() ? nullptr : &rules[found->second];
  }
  int64_t leading(const Rule &of, const TensorFactors &tensor, size_t dim) const;
  int64_t leadingOf(Value value, size_t dim) const;
  void join(const Rule &reader, unsigned operand);
  void leave(const Rule &maker, unsigned result);

  ArrayRef<TensorCandidate> candidates;
  const OpenValues &open;
  int64_t ranks, first;
  bool throughNorms;
  llvm::DenseSet<Operation *> inside; ///< ops of the region, also those without a rule here
  std::vector<Rule> rules;
  llvm::DenseMap<Operation *, size_t> numbers; ///< of rules
  SmallVector<unsigned> firstDims;             ///< number of the first dimension of a candidate
  llvm::DenseMap<Value, size_t> places;        ///< of candidates
  unsigned size = 0;                           ///< number of factors and dimensions
  llvm::IntEqClasses joined;
  enum class EndKind {
    Read,  ///< an op needs all of a dimension that is split
    Slice, ///< the value is whole, and a part of it is read: its gradient is gathered
    Leave  ///< ops of other regions need all of it
  };
  /// A dimension of a value that is split on one side only.
  struct Ending {
    EndKind kind;
    unsigned factor; ///< of the side that is split, by number
    const Rule *at;  ///< the op that reads the value, or that makes it if it leaves the region
    unsigned number; ///< of the operand or result
    size_t dim;
  };
  int64_t undivided(const Rule &of, const TensorFactors &tensor, size_t dim) const;
  void describe(const Ending &ending, SplitEnd &end) const;

  /// Parameters that are read split by a factor, and whose optimizer bars that.
  llvm::MapVector<unsigned, const TensorCandidate *> barred;
  /// The ends of each kind.
  std::vector<Ending> reads, slices, leaves;
};

} // namespace

/// The first factor of more than one element in a dimension.
static int64_t firstFactor(const ShardingRule &rule, ArrayRef<int64_t> factors) {
  for (int64_t factor : factors)
    if (rule.factors[factor].size > 1)
      return factor;
  return -1;
}

/// Returns the number of the factor that is split if a dimension of a tensor of an op is; -1 if the
/// op needs it whole.
int64_t ClassFinder::leading(const Rule &of, const TensorFactors &tensor, size_t dim) const {
  const ShardingRule &rule = of.rule;
  int64_t factor = firstFactor(rule, tensor[dim]);
  if (factor < 0 || rule.factors[factor].kind == FactorKind::Whole ||
      (!throughNorms && isExchanged(rule, factor)) || rule.factors[factor].size % first != 0)
    return -1;
  auto leads = [&](const TensorFactors &other) {
    return llvm::all_of(other, [&](ArrayRef<int64_t> factors) {
      return !llvm::is_contained(factors, factor) || firstFactor(rule, factors) == factor;
    });
  };
  if (!llvm::all_of(rule.operands, leads) || !llvm::all_of(rule.results, leads))
    return -1;
  return of.begin + factor;
}

/// Returns the leading factor of a dimension of a value that has it as a result, or as a parameter.
int64_t ClassFinder::leadingOf(Value value, size_t dim) const {
  if (auto place = places.find(value); place != places.end())
    return candidates[place->second].divides(dim, ranks) ? firstDims[place->second] + dim : -1;
  auto result = dyn_cast<OpResult>(value);
  const Rule *maker = result ? ruleOf(result.getOwner()) : nullptr;
  return maker ? leading(*maker, maker->rule.results[result.getResultNumber()], dim) : -1;
}

void ClassFinder::join(const Rule &reader, unsigned operand) {
  Value value = reader.op->getOperand(operand);
  const TensorFactors &tensor = reader.rule.operands[operand];
  for (size_t dim = 0; dim < tensor.size(); ++dim) {
    int64_t have = leadingOf(value, dim), read = leading(reader, tensor, dim);
    if (have >= 0 && read >= 0)
      joined.join(have, read);
    else if (have >= 0)
      reads.push_back({EndKind::Read, unsigned(have), &reader, operand, dim});
    else if (auto place = places.find(value); read >= 0 && place != places.end()) {
      const TensorCandidate &candidate = candidates[place->second];
      if (candidate.barred.test(dim) && !candidate.isVector())
        barred.try_emplace(unsigned(read), &candidate);
    } else if (Operation *maker = value.getDefiningOp(); read >= 0 && maker && ruleOf(maker))
      slices.push_back({EndKind::Slice, unsigned(read), &reader, operand, dim});
  }
}

/// Notes the dimensions of a result that ops of other regions need whole. Updates do not: a
/// gradient has the layout of its parameter.
void ClassFinder::leave(const Rule &maker, unsigned result) {
  Value value = maker.op->getResult(result);
  if (open.contains(value) || llvm::all_of(value.getUsers(), [&](Operation *user) {
        return inside.contains(user) || isa<GradientPartsOpInterface>(user);
      }))
    return;
  const TensorFactors &tensor = maker.rule.results[result];
  for (size_t dim = 0; dim < tensor.size(); ++dim)
    if (int64_t have = leading(maker, tensor, dim); have >= 0)
      leaves.push_back({EndKind::Leave, unsigned(have), &maker, result, dim});
}

static std::string nameOf(Operation *op) { return op->getName().getStringRef().str(); }

/// Returns the size of the first factor of a dimension, if the ranks do not divide it; else 0.
int64_t ClassFinder::undivided(const Rule &of, const TensorFactors &tensor, size_t dim) const {
  int64_t factor = firstFactor(of.rule, tensor[dim]);
  if (factor < 0 || of.rule.factors[factor].kind == FactorKind::Whole ||
      of.rule.factors[factor].size % first == 0)
    return 0;
  return of.rule.factors[factor].size;
}

/// Says where a class ends: at an op that reads a value whole, or at one that makes the value whole
/// of which a part is read. What another number of ranks would mend counts before other ends.
void ClassFinder::describe(const Ending &ending, SplitEnd &end) const {
  const Rule *at = ending.at;
  bool isMade = ending.kind == EndKind::Leave;
  const TensorFactors *tensor =
      isMade ? &at->rule.results[ending.number] : &at->rule.operands[ending.number];
  std::string reader = nameOf(at->op);
  if (ending.kind == EndKind::Slice) {
    auto made = cast<OpResult>(at->op->getOperand(ending.number));
    at = ruleOf(made.getOwner());
    tensor = &at->rule.results[made.getResultNumber()];
  }
  int64_t parts = undivided(*at, *tensor, ending.dim);
  if (!end.text.empty() && (end.isUndivided || parts == 0))
    return;
  end.node = sourceNode(at->op->getLoc());
  end.isUndivided = parts > 0;
  end.text = nameOf(at->op);
  if (parts > 0)
    end.text += " has " + std::to_string(parts) + " parts, which " + divisionOf(parts);
  else if (isMade)
    end.text += " makes a value that is needed whole outside of the block";
  else if (ending.kind == EndKind::Slice)
    end.text += " needs all of a gradient, of which " + reader + " has a part";
  else
    end.text += " needs all of dimension " + std::to_string(ending.dim);
}

std::vector<SplitClass> ClassFinder::find() {
  for (auto [number, candidate] : llvm::enumerate(candidates))
    places[candidate.argument] = number;
  joined.grow(size);
  for (const Rule &rule : rules)
    for (unsigned operand = 0; operand < rule.op->getNumOperands(); ++operand)
      join(rule, operand);
  for (const Rule &rule : rules)
    for (unsigned result = 0; result < rule.op->getNumResults(); ++result)
      leave(rule, result);
  joined.compress();
  std::vector<SplitClass> classes(joined.getNumClasses());
  for (const Rule &rule : llvm::reverse(rules))
    for (size_t factor = 0; factor < rule.rule.factors.size(); ++factor)
      classes[joined[rule.begin + factor]].first = rule.op;
  for (auto [number, candidate] : llvm::enumerate(candidates)) {
    if (candidate.fixed || candidate.isVector())
      continue;
    for (size_t dim = 0; dim < sizesOf(candidate).size(); ++dim)
      if (SplitClass &in = classes[joined[firstDims[number] + dim]];
          candidate.divides(dim, ranks) && in.first && in.dimOf(number) < 0)
        in.dims.push_back({number, int64_t(dim)});
  }
  for (auto [factor, candidate] : barred)
    classes[joined[factor]].end.text = candidate->whyBarred;
  for (const std::vector<Ending> *endings : {&reads, &slices, &leaves})
    for (const Ending &ending : *endings)
      describe(ending, classes[joined[ending.factor]].end);
  llvm::erase_if(classes, [](const SplitClass &each) { return each.dims.empty(); });
  llvm::stable_sort(classes, [](const SplitClass &a, const SplitClass &b) {
    return a.first != b.first && a.first->isBeforeInBlock(b.first);
  });
  return classes;
}

std::vector<SplitClass> findSplitClasses(ArrayRef<Operation *> ops,
                                         ArrayRef<TensorCandidate> candidates,
                                         const OpenValues &open, int64_t ranks, int64_t first,
                                         bool throughNorms) {
  return ClassFinder(ops, candidates, open, ranks, first, throughNorms).find();
}

} // namespace sharding
} // namespace shale
