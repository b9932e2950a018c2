//===- Detached.cpp - Detached values that have a name only ---------------===//
#include "lib/Frontend/ONNX/Rules/Rules.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

/// Stops gradients at each read of an x.detach(), which has a name only. An error where the file
/// does not show which operand it is.
void rules::detached(Known &known) {
  const TracedProgram &program = known.program;
  for (const TracedOperation &operation : program.operations()) {
    SmallVector<StringRef> names = program.missingNames(operation);
    llvm::erase_if(names, [](StringRef name) { return !isDetach(name); });
    if (names.empty())
      continue;
    // If the operation names a value that its nodes do not read, its first nodes were merged into
    // those of an equal operation.
    bool isWhole = llvm::all_of(operation.fx.args, [&](const std::string &name) {
      return !program.has(name) || !program.isComputed(name) || program.isRead(operation, name);
    });
    llvm::StringSet<> placed, placedNames;
    for (const NodeProto *node : operation.nodes)
      for (int i = 0; i < node->input_size(); ++i) {
        const MissingRead *read = program.missingRead(*node, i);
        bool isShown = program.meaningOf(*node, i);
        if (!read || !isDetach(read->name) ||
            !(isShown || (isWhole && !program.isInnerValue(operation, node->input(i)))))
          continue;
        placed.insert(node->input(i));
        placedNames.insert(read->name);
        known.found.restored[{node, i}] = {Expression::Kind::StopGradient};
      }
    // Operands that the record does not name. A detached value that no node computes, such as an
    // input, is none of them, and has no gradient.
    size_t unnamed = program.unnamedInputs(operation);
    bool isPlaced = program.hasForm(operation) ? !placed.empty() : placed.size() == 1;
    bool areAllPlaced = placedNames.size() == names.size() || unnamed <= placed.size();
    if ((isPlaced && areAllPlaced) || (placed.empty() && unnamed == 0))
      continue;
    known.refuse(Reason::OpenDetach, operation.nodes.front(), {names.front()});
  }
}

/// An error where a restored stop of gradients is inside of an operation that shares its nodes
/// with another one: mse_loss(q, h.detach()) and l1_loss(q, h) subtract once.
void rules::sharedStops(Known &known) {
  const TracedProgram &program = known.program;
  const auto &restored = known.found.restored;
  for (const TracedOperation &operation : program.operations())
    for (const NodeProto *node : operation.nodes)
      for (const std::string &value : node->input()) {
        const TracedOperation *maker =
            program.isInnerValue(operation, value) ? program.makerOf(value) : nullptr;
        bool stops = llvm::any_of(restored, [&](const auto &place) {
          return place.first.first == node && node->input(place.first.second) == value;
        });
        if (!maker || stops || llvm::none_of(restored, [&](const auto &place) {
              return llvm::is_contained(maker->nodes, place.first.first);
            }))
          continue;
        return known.refuse(Reason::SharedStop, node, {maker->fx.name});
      }
}
