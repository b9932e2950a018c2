//===- ReadFolded.cpp - Reads that no parameter explains ------------------===//
#include "lib/Frontend/ONNX/Rules/Known.h"
#include "llvm/ADT/STLExtras.h"
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::SmallVectorImpl;
using llvm::StringRef;

/// Removes from `names`, which an operation reads and no node has, those for which it reads a value
/// of another node.
static void dropComputed(const TracedProgram &program, const TracedOperation &operation,
                         SmallVectorImpl<StringRef> &names) {
  size_t computed = program.unnamedInputs(operation);
  SmallVector<StringRef> moved;
  for (StringRef name : names)
    if (isMovement(operationOf(name)))
      moved.push_back(name);
  if (computed >= names.size())
    names.clear();
  else if (computed == moved.size()) // a movement that changes nothing is left out
    llvm::erase_if(names, [&](StringRef name) { return llvm::is_contained(moved, name); });
}

/// Returns reads of float initializers that belong to no parameter. A value that a node of the
/// exported program reads and no node computes was folded. One-element numbers for which no such
/// name is left are the exporter's own.
static std::vector<FoldedRead> unexplainedReads(Known &known) {
  const TracedProgram &program = known.program;
  std::vector<FoldedRead> reads;
  auto add = [&](const Use &use, StringRef name, StringRef scope, const std::string &op,
                 bool isComputed) {
    // An initializer has its value's name, unless it was merged with another one.
    reads.push_back({use, name.str(), op, isComputed, scope.str()});
  };
  llvm::StringSet<> others; // initializers of other types
  for (const TensorProto &tensor : program.graph().initializer())
    if (!isFloat(tensor))
      others.insert(tensor.name());
  std::set<const NodeProto *> seen;
  for (const TracedOperation &operation : program.operations()) {
    seen.insert(operation.nodes.begin(), operation.nodes.end());
    SmallVector<const Use *> tensors, numbers;
    for (const Use &use : operation.uses)
      if (const FormFitter::Meaning *meaning = program.meaningOf(*use.node, use.operand);
          !known.isRead(*use.node, use.operand) && !(meaning && meaning->isNumber))
        (isScalar(*use.initializer) ? numbers : tensors).push_back(&use);
    SmallVector<StringRef> names = program.missingNames(operation);
    // If an operation reads no folded value, its other initializers come from the exporter itself
    // (the weight of a norm without one), except for operations that compute with a parameter
    // first.
    bool computes =
        llvm::any_of(tensors,
                     [&](const Use *use) { return !program.readsAsItIs(operation, *use); }) &&
        llvm::any_of(operation.fx.args, [&](const std::string &name) {
          return program.parameterOf(name).has_value();
        });
    auto isMissing = [&](size_t index) { return !known.parameter(index).used; };
    bool missesOne = llvm::any_of(operation.fx.args, [&](const std::string &name) {
      std::optional<size_t> index = program.parameterOf(name);
      return index && isMissing(*index);
    });
    missesOne |= llvm::any_of(tensors, [&](const Use *use) {
      std::optional<size_t> index = program.parameterNamed(use->initializer->name());
      return index && isMissing(*index);
    });
    if (names.empty() && !missesOne && !computes)
      continue;
    // A folded value of another type, such as a mask, is read under its name or under that of an
    // equal one.
    for (const NodeProto *node : operation.nodes)
      for (const std::string &input : node->input()) {
        auto *read = llvm::find(names, input);
        if (read == names.end() && others.contains(input))
          read = llvm::find_if(
              names, [&](StringRef name) { return operationOf(name) == operationOf(input); });
        if (read != names.end() && !program.initializer(input))
          names.erase(read);
      }
    dropComputed(program, operation, names);
    auto takeName = [&](const Use &use, size_t uses) -> StringRef {
      auto own = llvm::find(names, StringRef(use.initializer->name()));
      if (own == names.end() && (names.size() != 1 || uses > 1))
        return "";
      StringRef name = own != names.end() ? *own : names.front();
      names.erase(llvm::find(names, name));
      return name;
    };
    // If the operation computes with the operand first and no name is left, the computation is
    // taken to be a product, since only the factor is known.
    auto addNamed = [&](const Use &use, StringRef name) {
      StringRef own = name.empty() ? StringRef(use.initializer->name()) : name;
      bool isAsItIs = program.readsAsItIs(operation, use);
      add(use, own, operation.scope,
          isAsItIs       ? operationOf(own)
          : name.empty() ? "mul"
                         : "",
          /*isComputed=*/!isAsItIs && !name.empty());
    };
    for (const Use *use : tensors)
      addNamed(*use, takeName(*use, tensors.size()));
    for (const Use *use : numbers)
      if (StringRef name = takeName(*use, numbers.size()); !name.empty())
        addNamed(*use, name);
    // A value that it names and does not read was removed, like a bias of zeros.
    if (!isMovement(operation.kind()) && !isMadeByCode(operation.kind()))
      for (StringRef name : names)
        if (program.mayHideParameter(name))
          known.removed.push_back({name.str(), operation.scope});
  }
  for (const NodeProto &node : program.graph().node())
    for (int i = 0; i < node.input_size(); ++i) {
      const TensorProto *constant = program.initializer(node.input(i));
      if (constant && !seen.count(&node) && !isScalar(*constant) && !known.isRead(node, i))
        add({&node, i, constant}, node.input(i), readScope(node).value_or(""),
            operationOf(node.input(i)), /*isComputed=*/false);
    }
  return reads;
}

/// Returns what the exporter's metadata lists as that from which a value was folded; empty without
/// metadata.
static std::vector<std::string> originsOf(const TracedProgram &program, const FoldedRead &read) {
  std::vector<std::string> from = program.foldedFrom(read.initializer->name()).vec();
  if (read.initializer->name() == read.name)
    return from;
  if (!llvm::is_contained(from, read.name))
    return {}; // merged with an equal one, whose metadata this is
  // Nodes that the exporter made from the value, such as an Expand.
  llvm::erase(from, read.name);
  return from;
}

void onnx::readFolded(Known &known) {
  for (FoldedRead &read : unexplainedReads(known)) {
    if (known.options.constants.contains(read.initializer->name()))
      continue;
    auto same = llvm::find_if(known.values, [&](const FoldedValue &value) {
      return value.first().initializer == read.initializer && value.first().name == read.name &&
             value.first().scope == read.scope;
    });
    if (same == known.values.end())
      same = known.values.insert(known.values.end(),
                                 FoldedValue{{},
                                             known.program.numbersOf(*read.initializer),
                                             originsOf(known.program, read)});
    same->reads.push_back(std::move(read));
  }
}
