//===- FoldedByOrigin.cpp - Folded values by what they were folded from ---===//
//
// The exporter lists the names from which it folded a value: parameters, values of the exported
// program, and values of its own (val_3). A constant of equal elements is merged with the first one
// and has no list.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Folded.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

bool onnx::turnsElements(StringRef op) { return words::is(op, words::Trait::Turns); }

/// Returns what the exporter's metadata lists as that from which a value was folded; empty without
/// metadata.
std::vector<std::string> FoldedParameters::foldedFrom(const FoldedRead &read) const {
  std::vector<std::string> from = program.foldedFrom(read.initializer->name()).vec();
  if (read.initializer->name() == read.name)
    return from;
  if (!llvm::is_contained(from, read.name))
    return {}; // merged with an equal one, whose metadata this is
  // Nodes that the exporter made from the value, such as an Expand.
  llvm::erase(from, read.name);
  return from;
}

/// Returns the only parameter from which the exporter's metadata says that a value was folded; -1
/// if there is none, or more than one. Sets `turns` to the number of consecutive folded transposes,
/// or to -1 if there was something else.
int FoldedParameters::originOf(const Value &value, int &turns) {
  int found = -1;
  turns = turnsElements(value.first().op) ? 1 : -1;
  for (const std::string &name : value.from) {
    if (auto target = llvm::find(targets, name); target != targets.end()) {
      if (found >= 0)
        return -1;
      found = target - targets.begin();
    } else if (turnsElements(operationOf(name)) && turns > 0) {
      ++turns;
    } else {
      turns = -1;
    }
  }
  return found >= 0 && out.list[found].isParameter && !isAlias[found] ? found : -1;
}

/// Returns a parameter that the metadata of a value lists among those that it was folded from, or
/// that of an equal value with which it was merged; -1 if there is none.
int FoldedParameters::parameterBehind(const Value &value) {
  ArrayRef<std::string> from = value.from;
  if (from.empty())
    from = program.foldedFrom(value.first().initializer->name());
  for (const std::string &name : from)
    if (auto target = llvm::find(targets, name);
        target != targets.end() && out.list[target - targets.begin()].isParameter)
      return target - targets.begin();
  return -1;
}

/// Explains a transpose, or a transpose of that, of a parameter that the exporter's metadata names.
/// A graph that computes gradients reads both.
bool FoldedParameters::byOrigin(Value &value) {
  int turns = -1, index = originOf(value, turns);
  if (index < 0 || turns < 1 || value.first().initializer->dims_size() != 2)
    return false;
  Parameter &parameter = out.list[index];
  bool transposed = turns % 2;
  if (!parameter.used) {
    parameter.initializer = value.first().initializer;
    parameter.transposed = transposed;
    parameter.used = true;
    out.repairs.push_back(
        {value.first().node, "parameter '" + parameter.name + "' is restored from " +
                                 (transposed ? "the transposed" : "the") + " initializer '" +
                                 displayName(value.first().initializer->name()) + "'"});
  }
  for (const FoldedRead &read : value.reads)
    out.uses[{read.node, read.operand}] = {size_t(index), transposed};
  value.explained = true;
  return true;
}

/// Whether the list has an operation that computes, as in -exp(p): the value is not the
/// parameter's. What a lookup reads may be computed; of that, only functions of floats count.
bool FoldedParameters::isComputed(const Value &value) {
  auto isLookup = [](StringRef kind) { return words::is(kind, words::Trait::LooksUp); };
  bool looksUp = isLookup(value.first().op), computes = false, ofFloats = false;
  for (const std::string &name : value.from) {
    std::string kind = operationOf(name);
    if (kind.empty() || llvm::is_contained(targets, name))
      continue;
    looksUp |= isLookup(kind);
    computes |= isUnary(kind) || words::is(kind, words::Trait::Computes);
    ofFloats |= isUnary(kind) && !llvm::is_contained({"neg", "abs"}, kind);
  }
  return ofFloats || (computes && !looksUp);
}

/// Returns the shape of a parameter whose elements, or functions of them, a value has in their
/// order: the list has no other parameter, and only operations that add dimensions of one element,
/// or compute element by element, or repeat elements, unless the value `isMoved`. None if that is
/// not so, or if it is not certain which dimensions were added.
std::optional<SmallVector<int64_t>> FoldedParameters::shapeBehind(const Value &value, size_t index,
                                                                  bool isMoved) {
  ArrayRef<std::string> from = value.from;
  if (!llvm::is_contained(from, targets[index]))
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
    if (std::string kind = operationOf(name); name != targets[index] && !kind.empty())
      if (llvm::is_contained(targets, name) || !keepsOrder(kind))
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

/// Makes a value, of all elements of parameter `index`, its initial value.
void FoldedParameters::takeWhole(Value &value, size_t index, ArrayRef<int64_t> shape) {
  const TensorProto *tensor = value.first().initializer;
  Parameter &parameter = out.list[index];
  parameter.initializer = tensor;
  parameter.shape.assign(shape.begin(), shape.end());
  parameter.used = true;
  Expression expression = Expression::of("move", Expression::ofInput());
  expression.movement =
      reshapeTo(shape, SmallVector<int64_t>(tensor->dims().begin(), tensor->dims().end()));
  explain(value, index, expression);
  out.repairs.back().text = "parameter '" + parameter.name +
                            "', which the export folded, is restored from initializer '" +
                            displayName(tensor->name()) + "'";
}
