//===- Chosen.cpp - What values of parameters choose ----------------------===//
//
// A condition or an index may depend on a parameter: where(gate > 0, a, b), x[:, scores.argmax()],
// torch.cond(gate.min() < 0, f, g). The exporter evaluates it once, as any constant, and training
// moves the parameter away from that value. How it was computed is not in the file, so such a file
// is refused.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Reader/Scope.h"
#include "lib/Frontend/ONNX/Rules/Rules.h"
#include "llvm/ADT/STLExtras.h"
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::StringRef;

/// Returns the first trained parameter of a list of names; -1 if there is none. Without a gradient
/// from another use a parameter keeps its value, and what it chooses is constant.
static int trainedAmong(const Known &known, ArrayRef<std::string> names) {
  for (const std::string &name : names)
    if (std::optional<size_t> index = known.program.parameterNamed(name);
        index && known.parameter(*index).isParameter && !known.isFrozen(*index) &&
        !known.isMissing(*index))
      return *index;
  return -1;
}

/// Whether a constant that is no float has sizes of what it was folded from, and not values. What
/// the exporter lists is then moved or computed as floats, and the constant has a name of the
/// exporter's own, as those of sizes have; or it is filled with literal numbers.
static bool hasSizesOnly(const Known &known, const TensorProto &constant,
                         ArrayRef<std::string> from) {
  std::string own = operationOf(constant.name());
  if (!own.empty() || !isInteger(constant))
    return isMadeByCode(own);
  return llvm::all_of(from, [&](const std::string &name) {
    std::string kind = operationOf(name);
    return kind.empty() || known.program.parameterNamed(name) || isMadeByCode(kind) ||
           StringRef(name).starts_with(words::kSize) || words::is(kind, words::Trait::Computes) ||
           (isMovement(kind) && !isConversion(kind));
  });
}

/// The initializers of other types than floats, by name, without buffers that the module changes:
/// these are refused elsewhere.
static llvm::StringMap<const TensorProto *> othersOf(const Known &known) {
  llvm::StringMap<const TensorProto *> others;
  for (const TensorProto &tensor : known.program.graph().initializer()) {
    std::optional<size_t> buffer = known.program.parameterNamed(tensor.name());
    if (!isFloat(tensor) && !known.options.constants.contains(tensor.name()) &&
        !(buffer && known.parameter(*buffer).isChanged))
      others[tensor.name()] = &tensor;
  }
  return others;
}

/// An error for each condition and index that was computed from a trained parameter.
void rules::chosenConstants(Known &known) {
  llvm::StringMap<const TensorProto *> others = othersOf(known);
  for (const NodeProto &node : known.program.graph().node())
    forEachRead(node, [&](const NodeProto &reader, int operand) {
      auto constant = others.find(reader.input(operand));
      if (constant == others.end())
        return;
      ArrayRef<std::string> from = known.program.foldedFrom(constant->getKey());
      int index = trainedAmong(known, from);
      if (index >= 0 && !hasSizesOnly(known, *constant->second, from)) {
        StringRef name = constant->getKey();
        known.refuse(Reason::ChosenConstant, &reader,
                     {name, known.parameter(index).name, plain(displayName(name))});
        others.erase(constant); // once
      }
    });
}

/// Whether a value is the result of a branch that the exporter took in place of torch.cond: it
/// lists for it what the condition was folded from. It also lists the operands of nodes that it
/// rewrote, whose results have their operation's name or one of its own.
static bool isOfBranch(const TracedProgram &program, StringRef value, StringRef name) {
  const NodeProto *node = program.nodeOf(value);
  const TracedOperation *maker = program.makerOf(value);
  if (!node || !maker)
    return false;
  return StringRef(node->name()).starts_with(words::kBranch) ||
         (!operationOf(name).empty() && maker->fx.name != name);
}

/// Returns a read of an operation's only result in place of one of several results: a branch of
/// torch.cond that the exporter took returns the value as it is, and nothing lists what the
/// condition was folded from.
static const NodeProto *readOfUnchanged(const TracedProgram &program) {
  for (const MissingRead &read : program.missingReads())
    if (read.maker && read.maker->fx.name == read.value() &&
        read.maker->nodes.back()->output_size() == 1 && operationOf(read.name) == words::kResult)
      return read.read.first;
  return nullptr;
}

/// An error for a branch that a condition of a trained parameter chose, or may have chosen.
void rules::chosenBranches(Known &known) {
  const TracedProgram &program = known.program;
  auto isChosen = [&](const ValueInfoProto &value, StringRef name) {
    int index = trainedAmong(known, readFoldedFrom(value));
    bool found = index >= 0 && isOfBranch(program, value.name(), name);
    if (found)
      known.refuse(Reason::ChosenBranch, program.nodeOf(value.name()),
                   {known.parameter(index).name});
    return found;
  };
  for (const ValueInfoProto &value : program.graph().value_info())
    if (isChosen(value, value.name()))
      return;
  for (const ValueInfoProto &output : program.graph().output()) {
    StringRef original = metadata(output.metadata_props(), words::kOriginalName);
    if (isChosen(output, original.empty() ? StringRef(output.name()) : original))
      return;
  }
  if (const NodeProto *reader = readOfUnchanged(program))
    known.refuse(Reason::OpenBranch, reader, {});
}

/// Returns the name that an operation has for a constant which one of its nodes reads in place of
/// another one of equal elements; empty if it reads its own, or if that is not known.
static StringRef mergedName(const TracedProgram &program, const TracedOperation &operation,
                            const NodeProto &node, int operand, const TensorProto &constant) {
  llvm::SmallVector<StringRef> missing = program.missingNames(operation);
  llvm::erase_if(missing, [&](StringRef name) {
    return name == constant.name() || program.isFolded(name) || isMadeByCode(operationOf(name)) ||
           name.starts_with(words::kSize);
  });
  if (const FormFitter::Meaning *meaning = program.meaningOf(node, operand)) {
    auto *name = llvm::find(missing, StringRef(meaning->value));
    return meaning->isNumber || name == missing.end() ? "" : *name;
  }
  llvm::erase_if(missing, [&](StringRef name) {
    std::string kind = operationOf(name);
    return kind != operationOf(constant.name()) &&
           (isInteger(constant) || !words::is(kind, words::Trait::Masks));
  });
  return missing.size() == 1 ? missing.front() : "";
}

/// Whether a constant may be a condition of a parameter's elements, or the places of some: each of
/// its sizes is one of the parameter.
static bool fits(const TensorProto &constant, ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t> left(shape);
  for (int64_t size : constant.dims()) {
    auto *found = llvm::find(left, size);
    if (size != 1 && found == left.end())
      return false;
    if (size != 1)
      left.erase(found);
  }
  return true;
}

/// Returns a trained parameter of a module that may have chosen a constant; -1 if there is none.
static int mayBeChosenBy(const Known &known, StringRef module, const TensorProto &constant) {
  for (size_t index = 0; index < known.count(); ++index) {
    const Numbers *numbers = known.isTrained(index) && moduleOf(known.target(index)) == module
                                 ? known.numbersOf(index)
                                 : nullptr;
    if (numbers && fits(constant, numbers->shape))
      return index;
  }
  return -1;
}

/// An error for each condition and index that was merged with a constant of equal elements, and
/// that may have been computed from a parameter.
void rules::mergedChoices(Known &known) {
  llvm::StringMap<const TensorProto *> others = othersOf(known);
  for (const TracedOperation &operation : known.program.operations())
    for (const NodeProto *node : operation.nodes)
      for (int i = 0; i < node->input_size(); ++i) {
        const TensorProto *constant = others.lookup(node->input(i));
        StringRef name = constant ? mergedName(known.program, operation, *node, i, *constant) : "";
        int index = name.empty() ? -1 : mayBeChosenBy(known, operation.scope, *constant);
        if (index >= 0)
          known.refuse(Reason::MergedChoice, node,
                       {constant->name(), plain(displayName(name)), known.parameter(index).name,
                        plain(displayName(constant->name()))});
      }
}
