//===- Unexplained.cpp - Parameters and constants that are left -----------===//
#include "lib/Frontend/ONNX/Rules/Rules.h"
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
  return llvm::any_of(known.program.operations(), [&](const TracedOperation &operation) {
    return llvm::any_of(operation.fx.args, [&](const std::string &name) {
      return known.program.parameterOf(name) == index;
    });
  });
}

/// Returns a projection of an LSTM with proj_size, which PyTorch's exporter leaves out.
static std::optional<size_t> lostProjection(const Known &known) {
  for (size_t index = 0; index < known.count(); ++index)
    if (known.isMissing(index) && lastOf(known.target(index)).starts_with("weight_hr_l"))
      return index;
  return std::nullopt;
}

/// Returns "parameter 'w' is" or "parameters 'v', 'w' are".
static std::string are(llvm::ArrayRef<std::string> names) {
  bool isOne = names.size() == 1;
  return (isOne ? "parameter " : "parameters ") + listOf(names) + (isOne ? " is" : " are");
}

/// An error for parameters that may be lost, and a note for unused ones.
void rules::lostParameters(Known &known) {
  if (std::optional<size_t> index = lostProjection(known)) {
    known.refuse(Reason::LostProjection, nullptr, {known.parameter(*index).name});
    return;
  }
  std::vector<std::string> lost, unused, left; // `left`: what may hide the lost ones
  const NodeProto *reader = nullptr;           // of the first constant
  for (size_t index = 0; index < known.count(); ++index) {
    if (!known.isMissing(index))
      continue;
    const std::string &name = known.parameter(index).name;
    known.found.absent.push_back(name);
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
    bool isLost = mayBeFolded || !known.removed.empty() || isNamed(known, index);
    (isLost ? lost : unused).push_back(displayName(name));
  }
  if (left.empty())
    for (const RemovedOperation &operation : known.removed)
      addOnce(left, displayName(operation.name));
  if (!unused.empty())
    known.found.notes.push_back(are(unused) + " not used by the loss: not trained and not written");
  if (lost.empty())
    return;
  std::string by = reader ? ", read by " + nodeText(*reader) : "";
  known.refuse(Reason::LostParameters, reader,
               {plain(are(lost)),
                plain((lost.size() == 1 ? "it" : "them") +
                      (left.empty() ? "" : " (" + listOf(left) + by + ")")),
                reader ? ", --constant NAME for a constant that depends on no parameter" : ""});
}

/// Returns a parameter that the metadata of a value lists among those that it was folded from, or
/// that of an equal value with which it was merged.
static std::optional<size_t> parameterBehind(const Known &known, const FoldedValue &value) {
  llvm::ArrayRef<std::string> from = value.from;
  if (from.empty())
    from = known.program.foldedFrom(value.first().initializer->name());
  for (const std::string &name : from)
    if (std::optional<size_t> target = known.program.parameterNamed(name);
        target && known.parameter(*target).isParameter)
      return target;
  return std::nullopt;
}

/// Returns a parameter that is read by the module of a value and has as many elements.
static std::optional<size_t> mayComeFrom(const Known &known, const FoldedValue &value) {
  for (size_t index = 0; index < known.count(); ++index) {
    if (!known.isTrained(index) || moduleOf(known.target(index)) != value.first().scope)
      continue;
    const Numbers *numbers = known.numbersOf(index);
    if (numbers && numbers->size() == value.numbers->size())
      return index;
  }
  return std::nullopt;
}

/// An error for each constant that may hide a parameter's gradient.
void rules::foldedConstants(Known &known) {
  if (lostProjection(known)) // the file is of another model
    return;
  for (const FoldedValue &value : known.values) {
    if (value.isExplained)
      continue;
    const FoldedRead &read = value.first();
    const std::string &constant = read.initializer->name();
    std::optional<size_t> behind = parameterBehind(known, value);
    if (behind && !known.isFrozen(*behind) && !known.isMissing(*behind)) {
      known.refuse(Reason::FoldedUse, read.node,
                   {constant, known.parameter(*behind).name,
                    value.from.empty() ? " or one of equal value" : "",
                    plain(displayName(constant))});
      continue;
    }
    // In a file with such lists, a number without one is a literal of the model's code.
    bool isLiteral = value.from.empty() ? known.program.listsOrigins() && read.isOpen() &&
                                              isScalar(*read.initializer)
                                        : !behind;
    if (!value.numbers || isLiteral)
      continue;
    if (std::optional<size_t> index = mayComeFrom(known, value))
      known.refuse(Reason::OpenConstant, read.node,
                   {constant, known.parameter(*index).name,
                    plain(known.program.parameterNamed(constant)
                              ? ""
                              : say(", or pass --constant {} if it depends on no parameter",
                                    plain(displayName(constant))))});
  }
}
