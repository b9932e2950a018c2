//===- FoldedByTwin.cpp - Folded values of layers of equal values ---------===//
//
// Layers of a stack often begin with equal values: the exporter computes -exp(A_log) of each,
// merges the equal constants, and lists what the first one was folded from. The others are
// functions of the parameters of the same names in their own modules, if the same line of the same
// class reads them in the same place.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Messages.h"
#include "lib/Frontend/ONNX/Record/Rules.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

bool onnx::areTwins(const NodeProto &a, StringRef scope, const NodeProto &b, StringRef otherScope) {
  auto classes = readClasses(a), others = readClasses(b);
  if (!classes.empty() && !others.empty())
    return classes.back().first == scope && others.back().first == otherScope &&
           classes.back().second == others.back().second && scope != otherScope;
  SmallVector<StringRef> parts[2];
  scope.split(parts[0], '.');
  otherScope.split(parts[1], '.');
  auto isNumber = [](StringRef part) { return llvm::all_of(part, llvm::isDigit); };
  return scope != otherScope && parts[0].size() == parts[1].size() &&
         llvm::all_of(llvm::zip(parts[0], parts[1]), [&](auto pair) {
           auto [left, right] = pair;
           return left == right || (isNumber(left) && isNumber(right));
         });
}

/// Returns how a value is computed whose twin, which is explained, reads the same constant in the
/// same place: by `layers.1.D` where the other is computed by `layers.0.D`. None if it is no twin,
/// or a parameter is not there or has another value.
static std::optional<ParameterUse> twinOf(const Known &known, const FoldedValue &value,
                                          const FoldedValue &other) {
  const FoldedRead &read = value.first(), &twin = other.first();
  bool isSamePlace = read.initializer == twin.initializer && read.op == twin.op &&
                     read.isComputed == twin.isComputed && read.source == twin.source &&
                     read.operand == twin.operand && read.reader.kind == twin.reader.kind &&
                     read.reader.argument == twin.reader.argument &&
                     read.node->op_type() == twin.node->op_type();
  auto found = known.found.uses.find({twin.node, twin.operand});
  if (!isSamePlace || read.isOpen() || !areTwins(*read.node, read.scope, *twin.node, twin.scope) ||
      found == known.found.uses.end())
    return std::nullopt;
  ParameterUse use = found->second;
  auto turn = [&](size_t &index) {
    StringRef rest = known.target(index);
    if (!rest.consume_front(twin.scope) || !rest.consume_front("."))
      return false;
    int own = known.parameterAt(read.scope, rest);
    if (own < 0 ||
        !(known.isMissing(own) || (known.parameter(own).used && known.haveEqualValues(own, index))))
      return false;
    index = own;
    return true;
  };
  return turn(use.parameter) && llvm::all_of(use.others, turn) ? std::optional(use) : std::nullopt;
}

/// Explains values that were merged with those of another module, whose parameters have equal
/// values: each is the same function of the parameters of the same names in its own module.
Findings rules::byTwin(const Known &known) {
  struct Pair {
    const FoldedValue *value;
    ParameterUse use, twin;
  };
  Findings findings;
  const Parameters &found = known.found;
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
           (use.expression < 0 ? Expression::ofInput() : found.expressions[use.expression])
               .key(parametersOf(use));
  };
  for (const FoldedValue &value : known.values) {
    std::optional<Pair> only;
    bool isUnique = true;
    for (const FoldedValue &other : known.values) {
      std::optional<ParameterUse> use =
          value.isExplained || !other.isExplained ? std::nullopt : twinOf(known, value, other);
      if (!use)
        continue;
      isUnique &= !only || keyOf(only->use) == keyOf(*use);
      only = {&value, *use, found.uses.at(other.places().front())};
    }
    if (!only || !isUnique)
      continue;
    for (auto [index, twin] : llvm::zip(parametersOf(only->use), parametersOf(only->twin)))
      if (known.isMissing(index))
        if (auto source = sources.try_emplace(index, twin).first;
            !known.haveEqualValues(source->second, twin))
          open.insert(index);
    pairs.push_back(std::move(*only));
  }
  for (const Pair &pair : pairs) {
    SmallVector<size_t> own = parametersOf(pair.use);
    if (llvm::any_of(own, [&](size_t index) { return open.count(index); }))
      continue;
    for (size_t index : own)
      if (known.isMissing(index)) {
        const Parameter &source = known.parameter(sources[index]);
        findings.claim(Evidence::Twin, ValueClaim{index,
                                                  {source.initializer, source.transposed,
                                                   source.shape, source.dataType, source.values}});
      }
    ReadClaim read{pair.use.parameter, pair.value->places(), pair.use.transposed};
    if (pair.use.expression >= 0)
      read.expression = found.expressions[pair.use.expression];
    read.others = pair.use.others;
    findings.claim(Evidence::Twin, std::move(read),
                   messages::foldedTwin(*pair.value, known.parameter(pair.use.parameter).name,
                                        known.parameter(pair.twin.parameter).name));
  }
  return findings;
}
