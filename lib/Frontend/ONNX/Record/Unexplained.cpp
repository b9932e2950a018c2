//===- Unexplained.cpp - Parameters and constants that are left -----------===//
#include "lib/Frontend/ONNX/Record/Messages.h"
#include "lib/Frontend/ONNX/Record/Rules.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;

static void addOnce(std::vector<std::string> &list, std::string name) {
  if (!llvm::is_contained(list, name))
    list.push_back(std::move(name));
}

/// Whether an operation names a parameter, and no node reads it.
static bool isNamed(const Known &known, size_t index) {
  return llvm::any_of(known.program.operations(), [&](const Operation &operation) {
    return llvm::any_of(operation.fx.args, [&](const std::string &name) {
      return known.program.parameterOf(name) == index;
    });
  });
}

/// Returns a projection of an LSTM with proj_size, which PyTorch's exporter leaves out.
static std::optional<size_t> lostProjection(const Known &known) {
  for (size_t index = 0; index < known.found.list.size(); ++index)
    if (known.isMissing(index) && lastOf(known.target(index)).starts_with("weight_hr_l"))
      return index;
  return std::nullopt;
}

/// An error for parameters that may be lost, and a note for unused ones.
Findings rules::lostParameters(const Known &known) {
  Findings findings;
  if (std::optional<size_t> index = lostProjection(known))
    return Findings::error(messages::lostProjection(known.parameter(*index).name));
  const std::vector<RemovedOperation> &hidden = known.removed;
  std::vector<std::string> lost, unused, left;
  const NodeProto *reader = nullptr; // of the first constant
  for (size_t index = 0; index < known.found.list.size(); ++index) {
    if (!known.isMissing(index))
      continue;
    const std::string &name = known.parameter(index).name;
    findings.absent.push_back(name);
    if (known.isFrozen(index))
      continue;
    bool mayBeFolded = false;
    for (const FoldedValue &value : known.values) {
      // If a value has a list of what it was folded from, the list is complete.
      if (value.isExplained ||
          (!value.from.empty() && !llvm::is_contained(value.from, known.target(index))))
        continue;
      mayBeFolded = true;
      addOnce(left, displayName(value.first().initializer->name()));
      reader = reader ? reader : value.first().node;
    }
    bool isLost = mayBeFolded || !hidden.empty() || isNamed(known, index);
    (isLost ? lost : unused).push_back(displayName(name));
  }
  if (left.empty())
    for (const RemovedOperation &operation : hidden)
      addOnce(left, displayName(operation.name));
  if (!unused.empty())
    findings.notes.push_back(messages::unused(unused));
  if (!lost.empty())
    findings.errors.push_back(messages::lostParameters(lost, left, reader));
  return findings;
}

/// Returns a parameter that is read by the module of a value and has as many elements.
static std::optional<size_t> mayComeFrom(const Known &known, const FoldedValue &value) {
  for (size_t index = 0; index < known.found.list.size(); ++index) {
    const Parameter &parameter = known.parameter(index);
    if (!parameter.isParameter || !parameter.used || known.isFrozen(index) ||
        moduleOf(known.target(index)) != value.first().scope)
      continue;
    const Numbers *numbers = known.numbersOf(index);
    if (numbers && numbers->size() == value.numbers->size())
      return index;
  }
  return std::nullopt;
}

/// An error for each constant that may hide a parameter's gradient.
Findings rules::foldedConstants(const Known &known) {
  Findings findings;
  if (lostProjection(known)) // the file is of another model
    return findings;
  for (const FoldedValue &value : known.values) {
    if (value.isExplained)
      continue;
    int behind = parameterBehind(known, value);
    if (behind >= 0 && !known.isFrozen(behind) && !known.isMissing(behind)) {
      findings.errors.push_back(messages::foldedFrom(value, known.parameter(behind).name));
      continue;
    }
    // In a file with such lists, a number without one is a literal of the model's code.
    const FoldedRead &read = value.first();
    bool isLiteral = value.from.empty() ? known.program.listsOrigins() && read.isOpen() &&
                                              isScalar(*read.initializer)
                                        : behind < 0;
    if (!value.numbers || isLiteral)
      continue;
    if (std::optional<size_t> index = mayComeFrom(known, value))
      findings.errors.push_back(messages::maybeFoldedFrom(
          value, known.parameter(*index).name,
          known.program.parameterNamed(read.initializer->name()).has_value()));
  }
  return findings;
}
