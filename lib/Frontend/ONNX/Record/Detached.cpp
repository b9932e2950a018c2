//===- Detached.cpp - Detached values that have a name only ---------------===//
#include "lib/Frontend/ONNX/Record/Finder.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

/// Stops gradients at each read of an x.detach(), which has a name only. Adds an error where the
/// file does not show which operand it is.
void Finder::restoreDetached() {
  auto isDetached = [&](StringRef name) {
    return !program.has(name) && operationOf(name) == "detach";
  };
  for (const Operation &operation : program.operations()) {
    SmallVector<StringRef> names = program.missingNames(operation);
    llvm::erase_if(names, [&](StringRef name) { return !isDetached(name); });
    if (names.empty())
      continue;
    bool isFormed = operation.hasForm;
    // If the operation names a value that its nodes do not read, its first nodes were merged into
    // those of an equal operation.
    bool isWhole = llvm::all_of(operation.fx.args, [&](const std::string &name) {
      return !program.has(name) || !program.isComputed(name) || program.isRead(operation, name);
    });
    llvm::StringSet<> placed;
    for (const NodeProto *node : operation.nodes)
      for (int i = 0; i < node->input_size(); ++i) {
        const FormFitter::Meaning *meaning = program.meaningOf(*node, i);
        bool isShown = meaning && !meaning->value.empty();
        bool stops = isDetached(isShown ? StringRef(meaning->value)
                                        : program.removedName(operation, *node, i));
        if (!stops || !(isShown || (isWhole && !program.isInnerValue(operation, node->input(i)))))
          continue;
        placed.insert(node->input(i));
        out.restored[{node, i}] = {Expression::of("stop_gradient", Expression::ofInput()), {}};
      }
    if (isFormed ? !placed.empty() : placed.size() == 1)
      continue;
    if (placed.empty() &&
        program.unnamedInputs(operation).empty()) // the detached value is no computed one
      continue;
    out.errors.push_back(
        "node '" + displayName(operation.nodes.front()->name()) +
        "' reads a value that the model detaches ('" + displayName(names.front()) +
        "'), and the file does not show which of its operands that is: training would send a gradient through it. "
        "Export with torch.onnx.export(..., optimize=False)");
  }
}

/// Adds an error where a restored stop of gradients is inside of an operation that shares its nodes
/// with another one: mse_loss(q, h.detach()) and l1_loss(q, h) subtract once.
void Finder::refuseSharedStops() {
  for (const Operation &operation : program.operations())
    for (const NodeProto *node : operation.nodes)
      for (const std::string &value : node->input()) {
        const Operation *maker =
            program.isInnerValue(operation, value) ? program.makerOf(value) : nullptr;
        bool stops = llvm::any_of(out.restored, [&](const auto &place) {
          return place.first.first == node && node->input(place.first.second) == value;
        });
        if (!maker || stops || llvm::none_of(out.restored, [&](const auto &place) {
              return llvm::is_contained(maker->nodes, place.first.first);
            }))
          continue;
        out.errors.push_back(
            "node '" + displayName(node->name()) + "' reads a part of '" +
            displayName(maker->fx.name) +
            "', with which the export merged it, and the model detaches an operand there. "
            "Export with torch.onnx.export(..., optimize=False)");
        return;
      }
}
