//===- Candidates.cpp - Parameters that are nowhere in the file -----------===//
//
// A constant with only one candidate, which is the candidate of no other constant, is that
// parameter. A module that is called twice folds into one constant under two names, by the same
// kind of operation.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Messages.h"
#include "lib/Frontend/ONNX/Record/Rules.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

/// Whether a parameter that is nowhere in the file may be the source of a moved constant; `named`:
/// its module reads the constant, or the line of source names it.
static bool isCandidate(const Known &known, const FoldedValue &value, size_t index, bool named) {
  llvm::ArrayRef<std::string> targets = known.program.targets();
  const FoldedRead &read = value.first();
  // A table that is looked up is the weight of a module, and the model's source names the module.
  bool looksUp = read.op == "embedding";
  if (!known.isMissing(index) || (looksUp && lastOf(targets[index]) != "weight"))
    return false;
  // A list has all that the value was folded from: buffers, or other parameters.
  if (!value.from.empty() && !llvm::is_contained(value.from, targets[index]))
    return false;
  int turns;
  if (int origin = originOf(known, value, turns); origin >= 0)
    return origin == int(index);
  StringRef target = looksUp ? moduleOf(targets[index]) : StringRef(targets[index]);
  // Single numbers and copies are just as often literals of the model's code
  // (`torch.tensor(-1e4)`).
  if (isScalar(*read.initializer) || words::is(read.op, words::Trait::CopiesLiteral))
    return mentions(read.source, ("." + lastOf(target)).str());
  if (mentions(read.source, lastOf(target)))
    return !named || moduleOf(target) == read.scope;
  if (!looksUp && value.isTable()) // apparently computed by code
    return false;
  return named ? moduleOf(target) == read.scope : areNested(moduleOf(target), read.scope);
}

namespace {

/// A parameter as a moved constant has it.
struct Taken {
  InitialValue value;
  /// Computes, from the parameter, the value that the nodes read.
  Expression expression;
  SmallVector<int64_t> shape;
};

} // namespace

/// Returns a value of all elements of a parameter as its initial value.
static Taken takeWhole(const FoldedValue &value, ArrayRef<int64_t> shape) {
  const TensorProto *tensor = value.first().initializer;
  Taken taken{{tensor}, Expression::of("move", Expression::ofInput()), SmallVector<int64_t>(shape)};
  taken.value.shape = shape.vec();
  taken.expression.movement =
      reshapeTo(shape, SmallVector<int64_t>(tensor->dims().begin(), tensor->dims().end()));
  return taken;
}

/// Whether a constant of equal elements may be a repetition of fewer elements. It is none if a line
/// of source reads the whole parameter and its type was converted.
static bool mayBeRepeated(const Known &known, const FoldedValue &value, size_t index) {
  const FoldedRead &read = value.first();
  bool isWhole = isConversion(read.op) &&
                 mentions(read.source, ("." + lastOf(known.target(index))).str()) &&
                 !mentions(read.source, ".expand") && !mentions(read.source, ".repeat") &&
                 moduleOf(known.target(index)) == read.scope;
  return value.numbers->size() > 1 && read.op != "embedding" && !isWhole;
}

/// Whether an operation that a value was folded from may have repeated elements. Without a list it
/// is not known.
static bool mayHaveRepeats(const FoldedValue &value) {
  auto mayRepeat = [](StringRef kind) {
    using words::Trait;
    auto is = [&](Trait trait) { return words::is(kind, trait); };
    return is(Trait::LooksUp) ||
           (is(Trait::Moves) && !is(Trait::TakesPart) && !is(Trait::Turns) &&
            !is(Trait::Reshapes) && !is(Trait::Copies) && !is(Trait::Converts));
  };
  return value.from.empty() || mayRepeat(value.first().op) ||
         llvm::any_of(value.from,
                      [&](const std::string &name) { return mayRepeat(operationOf(name)); });
}

/// Returns the initial value of parameter `index` from a moved constant. A dimension along which
/// nothing changes was repeated if that may be, and has one element. None if elements seem to occur
/// several times in another way: their gradients would have to be added up.
static std::optional<Taken> takePart(const Known &known, const FoldedValue &value, size_t index) {
  const FoldedRead &read = value.first();
  const TensorProto *tensor = read.initializer;
  if (isComputed(known, value))
    return std::nullopt;
  // Operations that were removed may have read other parts.
  if (words::is(read.op, words::Trait::TakesPart) &&
      llvm::any_of(known.hidden(), [&](const RemovedOperation &operation) {
        return operation.scope == read.scope || operation.scope == moduleOf(known.target(index));
      }))
    return std::nullopt;
  SmallVector<int64_t> shape(tensor->dims().begin(), tensor->dims().end()), kept = shape;
  InitialValue initial{nullptr, false, std::nullopt, tensor->data_type()};
  if (value.numbers && isConstant(*value.numbers)) {
    if (mayBeRepeated(known, value, index))
      return std::nullopt;
  } else if (value.numbers && mayHaveRepeats(value)) {
    Numbers part = withoutRepeats(*value.numbers);
    std::vector<double> &once = part.values;
    kept = part.shape;
    if (std::set<double>(once.begin(), once.end()).size() * 10 < once.size() * 9)
      return std::nullopt;
    if (kept != shape) {
      initial.shape = std::vector<int64_t>(kept.begin(), kept.end());
      initial.values = std::move(once);
    }
  }
  // A table is a list of rows, whatever the shape of the lookup.
  SmallVector<int64_t> own = kept;
  if (read.op == "embedding" && kept.size() > 2) {
    own = {std::accumulate(kept.begin(), kept.end() - 1, int64_t(1), std::multiplies<int64_t>()),
           kept.back()};
    initial.shape = std::vector<int64_t>(own.begin(), own.end());
  }
  bool turned = words::is(read.op, words::Trait::Turns);
  bool wasTurned = llvm::any_of(value.from, [&](const std::string &name) {
    return words::is(operationOf(name), words::Trait::Turns) && !known.program.parameterNamed(name);
  });
  if (wasTurned || (turned && (shape.size() != 2 || kept != shape)))
    return std::nullopt; // its layout is not known
  if (kept == shape)
    initial.initializer = tensor;
  initial.transposed = turned;
  initial.mayBePart = words::is(read.op, words::Trait::TakesPart);
  Taken taken{std::move(initial), Expression::of("move", Expression::ofInput()), own};
  taken.expression.movement = reshapeTo(own, kept);
  taken.expression.movement.shape.assign(shape.begin(), shape.end());
  return taken;
}

/// Claims that a constant, which a module reads under several names, is the parameter.
static void claimTaken(Findings &findings, const Known &known, ArrayRef<const FoldedValue *> list,
                       size_t index) {
  const FoldedValue &value = *list.front();
  const std::string &name = known.parameter(index).name;
  std::optional<SmallVector<int64_t>> whole = shapeBehind(known, value, index, /*isMoved=*/true);
  std::optional<Taken> taken =
      whole ? std::optional(takeWhole(value, *whole)) : takePart(known, value, index);
  if (!taken)
    return;
  // The other movements may have changed its shape.
  bool isAsItIs = taken->value.transposed || isConversion(value.first().op) ||
                  words::is(value.first().op, words::Trait::Copies);
  Repair remark = whole      ? messages::foldedWhole(value, name)
                  : isAsItIs ? messages::foldedPart(value, name)
                             : messages::foldedPart(value, name, taken->shape);
  bool transposed = taken->value.transposed;
  findings.claim(Evidence::Elimination, ValueClaim{index, std::move(taken->value)});
  claimFolded(findings, known, value, index, taken->expression, Evidence::Elimination,
              std::move(remark));
  ReadClaim &read = std::get<ReadClaim>(findings.claims.back().what);
  read.transposed = transposed;
  for (const FoldedValue *other : list.drop_front()) {
    ReadClaim same = read;
    same.reads = other->places();
    findings.claim(Evidence::Elimination, std::move(same));
  }
}

/// `named`: the module of the parameter reads the constant, or the line of source names it.
static Findings byElimination(const Known &known, bool named) {
  Findings findings;
  std::map<const FoldedValue *, SmallVector<size_t>> candidates;
  std::map<size_t, SmallVector<const FoldedValue *>> wanted;
  for (const FoldedValue &value : known.values) {
    if (value.isExplained || !isMovement(value.first().op))
      continue;
    for (size_t index = 0; index < known.found.list.size(); ++index)
      if (isCandidate(known, value, index, named)) {
        candidates[&value].push_back(index);
        wanted[index].push_back(&value);
      }
  }
  for (auto &[index, list] : wanted) {
    const FoldedRead &first = list.front()->first();
    if (llvm::all_of(list, [&](const FoldedValue *value) {
          return candidates[value].size() == 1 && value->first().op == first.op &&
                 value->first().initializer == first.initializer;
        }))
      claimTaken(findings, known, list, index);
  }
  return findings;
}

Findings rules::onlyNamedCandidate(const Known &known) {
  return byElimination(known, /*named=*/true);
}

Findings rules::onlyCandidate(const Known &known) { return byElimination(known, /*named=*/false); }
