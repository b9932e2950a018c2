//===- FoldedByTwin.cpp - Folded values of layers of equal values ---------===//
//
// Layers of a stack often begin with equal values: the exporter computes -exp(A_log) of each,
// merges the equal constants, and lists what the first one was folded from. The others are
// functions of the parameters of the same names in their own modules, if the same line of the same
// class reads them in the same place.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Folded.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "llvm/ADT/STLExtras.h"
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

/// Whether two modules run the same code: those of nodes that are of one class. Without a record of
/// classes, those whose scopes differ in the numbers of modules in lists only, as layers.0.mixer
/// and layers.1.mixer.
static bool areTwins(const FoldedRead &a, const FoldedRead &b) {
  auto classes = readClasses(*a.node), others = readClasses(*b.node);
  if (!classes.empty() && !others.empty())
    return classes.back().first == a.scope && others.back().first == b.scope &&
           classes.back().second == others.back().second && a.scope != b.scope;
  SmallVector<StringRef> parts[2];
  StringRef(a.scope).split(parts[0], '.');
  StringRef(b.scope).split(parts[1], '.');
  auto isNumber = [](StringRef part) { return llvm::all_of(part, llvm::isDigit); };
  return a.scope != b.scope && parts[0].size() == parts[1].size() &&
         llvm::all_of(llvm::zip(parts[0], parts[1]), [&](auto pair) {
           auto [left, right] = pair;
           return left == right || (isNumber(left) && isNumber(right));
         });
}

/// Whether two parameters of the file have the same initial value.
bool FoldedParameters::haveEqualValues(size_t index, size_t other) {
  const Parameter &a = out.list[index], &b = out.list[other];
  if (a.initializer && a.initializer == b.initializer && a.transposed == b.transposed)
    return true;
  const Numbers *left = numbersOf(index), *right = numbersOf(other);
  return left && right && left->shape == right->shape && left->values == right->values;
}

/// Returns how a value is computed whose twin, which is explained, reads the same constant in the
/// same place: by `layers.1.D` where the other is computed by `layers.0.D`. None if it is no twin,
/// or a parameter is not there or has another value.
std::optional<ParameterUse> FoldedParameters::twinOf(const Value &value, const Value &other) {
  const FoldedRead &read = value.first(), &known = other.first();
  bool isSamePlace = read.initializer == known.initializer && read.op == known.op &&
                     read.isComputed == known.isComputed && read.source == known.source &&
                     read.operand == known.operand && read.reader.kind == known.reader.kind &&
                     read.reader.argument == known.reader.argument &&
                     read.node->op_type() == known.node->op_type();
  auto found = out.uses.find({known.node, known.operand});
  if (!isSamePlace || read.isOpen() || !areTwins(read, known) || found == out.uses.end())
    return std::nullopt;
  ParameterUse use = found->second;
  auto turn = [&](size_t &index) {
    StringRef rest = targets[index];
    if (!rest.consume_front(known.scope) || !rest.consume_front("."))
      return false;
    int twin = parameterAt(read.scope, rest);
    if (twin < 0 || !(isMissing(twin) || (out.list[twin].used && haveEqualValues(twin, index))))
      return false;
    index = twin;
    return true;
  };
  return turn(use.parameter) && llvm::all_of(use.others, turn) ? std::optional(use) : std::nullopt;
}

/// Explains values that were merged with those of another module, whose parameters have equal
/// values: each is the same function of the parameters of the same names in its own module.
void FoldedParameters::byTwin() {
  struct Pair {
    Value *value;
    ParameterUse use, known;
  };
  std::vector<Pair> pairs;
  std::map<size_t, size_t> sources; // of missing parameters: one with its value
  std::set<size_t> open;            // those that would have two values
  auto parametersOf = [](const ParameterUse &use) {
    SmallVector<size_t> all = {use.parameter};
    all.append(use.others.begin(), use.others.end());
    return all;
  };
  auto keyOf = [&](const ParameterUse &use) {
    return (use.transposed ? "T" : "") +
           (use.expression < 0 ? Expression::ofInput() : out.expressions[use.expression])
               .key(parametersOf(use));
  };
  for (Value &value : values) {
    std::optional<Pair> only;
    bool isUnique = true;
    for (const Value &other : values) {
      std::optional<ParameterUse> use =
          value.explained || !other.explained ? std::nullopt : twinOf(value, other);
      if (!use)
        continue;
      isUnique &= !only || keyOf(only->use) == keyOf(*use);
      only = {&value, *use, out.uses[{other.first().node, other.first().operand}]};
    }
    if (!only || !isUnique)
      continue;
    for (auto [index, known] : llvm::zip(parametersOf(only->use), parametersOf(only->known)))
      if (isMissing(index))
        if (auto source = sources.try_emplace(index, known).first;
            !haveEqualValues(source->second, known))
          open.insert(index);
    pairs.push_back(std::move(*only));
  }
  for (Pair &pair : pairs) {
    SmallVector<size_t> own = parametersOf(pair.use);
    if (llvm::any_of(own, [&](size_t index) { return open.count(index); }))
      continue;
    for (size_t index : own)
      if (isMissing(index)) {
        out.list[index].takeValueOf(out.list[sources[index]]);
        cache.erase(index);
      }
    explainAs(*pair.value, pair.use);
    const FoldedRead &read = pair.value->first();
    out.repairs.push_back(
        {read.node, "parameter '" + out.list[pair.use.parameter].name +
                        "', which the export folded, is restored from initializer '" +
                        displayName(read.initializer->name()) + "', as '" +
                        out.list[pair.known.parameter].name + "'"});
  }
}
