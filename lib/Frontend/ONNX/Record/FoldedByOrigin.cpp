//===- FoldedByOrigin.cpp - Folded values by what they were folded from ---===//
//
// The exporter lists the names from which it folded a value: parameters, values of the exported
// program, and values of its own (val_3). A constant of equal elements is merged with the first one
// and has no list.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Messages.h"
#include "lib/Frontend/ONNX/Record/Rules.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

static bool turnsElements(StringRef kind) { return words::is(kind, words::Trait::Turns); }

int onnx::originOf(const Known &known, const FoldedValue &value, int &turns) {
  int found = -1;
  turns = turnsElements(value.first().op) ? 1 : -1;
  for (const std::string &name : value.from) {
    if (std::optional<size_t> target = known.program.parameterNamed(name)) {
      if (found >= 0)
        return -1;
      found = *target;
    } else if (turnsElements(operationOf(name)) && turns > 0) {
      ++turns;
    } else {
      turns = -1;
    }
  }
  return found >= 0 && known.parameter(found).isParameter && !known.isAlias[found] ? found : -1;
}

int onnx::parameterBehind(const Known &known, const FoldedValue &value) {
  ArrayRef<std::string> from = value.from;
  if (from.empty())
    from = known.program.foldedFrom(value.first().initializer->name());
  for (const std::string &name : from)
    if (std::optional<size_t> target = known.program.parameterNamed(name);
        target && known.parameter(*target).isParameter)
      return *target;
  return -1;
}

/// Explains a transpose, or a transpose of that, of a parameter that the exporter's metadata names.
/// A graph that computes gradients reads both.
Findings rules::byOrigin(const Known &known, const FoldedValue &value) {
  Findings findings;
  int turns = -1, index = originOf(known, value, turns);
  if (index < 0 || turns < 1 || value.first().initializer->dims_size() != 2)
    return findings;
  bool transposed = turns % 2;
  findings.claim(
      Evidence::Origin, ValueClaim{size_t(index), {value.first().initializer, transposed}},
      messages::restoredFrom(value.first(), known.parameter(index).name, transposed, ""));
  findings.claim(Evidence::Origin, ReadClaim{size_t(index), value.places(), transposed});
  return findings;
}

bool onnx::isComputed(const Known &known, const FoldedValue &value) {
  auto isLookup = [](StringRef kind) { return words::is(kind, words::Trait::LooksUp); };
  bool looksUp = isLookup(value.first().op), computes = false, ofFloats = false;
  for (const std::string &name : value.from) {
    std::string kind = operationOf(name);
    if (kind.empty() || known.program.parameterNamed(name))
      continue;
    looksUp |= isLookup(kind);
    computes |= isUnary(kind) || words::is(kind, words::Trait::Computes);
    ofFloats |= isUnary(kind) && !llvm::is_contained({"neg", "abs"}, kind);
  }
  return ofFloats || (computes && !looksUp);
}

std::optional<SmallVector<int64_t>> onnx::shapeBehind(const Known &known, const FoldedValue &value,
                                                      size_t index, bool isMoved) {
  StringRef target = known.target(index);
  ArrayRef<std::string> from = value.from;
  if (!llvm::is_contained(from, target))
    return std::nullopt;
  int64_t added = 0;
  bool isRepeated = false;
  auto keepsOrder = [&](StringRef kind) {
    added += kind == "unsqueeze";
    isRepeated |= kind == "expand";
    return kind == "unsqueeze" || isConversion(kind) ||
           (!isMoved && (kind == "expand" || isUnary(kind)));
  };
  if (!keepsOrder(value.first().op))
    return std::nullopt;
  for (const std::string &name : from)
    if (std::string kind = operationOf(name); name != target && !kind.empty())
      if (known.program.parameterNamed(name) || !keepsOrder(kind))
        return std::nullopt;
  const TensorProto *tensor = value.first().initializer;
  SmallVector<int64_t> shape(tensor->dims().begin(), tensor->dims().end());
  int64_t rank = shape.size();
  // The parameter has at most rank - added dimensions, and elements change along each of these.
  if (isRepeated && value.numbers)
    shape = withoutRepeats(*value.numbers).shape;
  llvm::erase(shape, 1);
  if (rank - int64_t(shape.size()) != added || (isRepeated && !value.numbers))
    return std::nullopt;
  return shape;
}
