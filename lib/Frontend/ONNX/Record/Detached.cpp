//===- Detached.cpp - Detached values that have a name only ---------------===//
#include "lib/Frontend/ONNX/Record/Rules.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

/// Whether an operation with which the exporter merged a part of this one reads what one of its
/// nodes computes: mse_loss(q, h.detach()) and l1_loss(q, h) subtract once.
static bool isPartOfOther(const TracedProgram &program, const TracedOperation &operation,
                          const NodeProto &node) {
  return llvm::any_of(program.operations(), [&](const TracedOperation &other) {
    return &other != &operation && llvm::any_of(other.nodes, [&](const NodeProto *reader) {
      return llvm::any_of(reader->input(), [&](const std::string &value) {
        return llvm::is_contained(node.output(), value) && program.isInnerValue(other, value);
      });
    });
  });
}

/// Stops gradients at each read of an x.detach(), which has a name only, where the form of the
/// operation that reads it shows which operand it is. Else an error.
void rules::detached(Known &known) {
  const TracedProgram &program = known.program;
  for (const TracedOperation &operation : program.operations()) {
    SmallVector<StringRef> names = program.missingNames(operation);
    const auto *name = llvm::find_if(names, isDetach);
    if (name == names.end())
      continue;
    bool isShown = false, isShared = false;
    for (const NodeProto *node : operation.nodes)
      for (int i = 0; i < node->input_size(); ++i)
        if (const MissingRead *read = program.missingRead(*node, i);
            read && isDetach(read->name) && program.meaningOf(*node, i)) {
          isShown = true;
          isShared |= isPartOfOther(program, operation, *node);
          known.found.restored[{node, i}] = {Expression::Kind::StopGradient};
        }
    // A value that no node computes has no gradient.
    if (isShared || (!isShown && program.unnamedInputs(operation) > 0))
      known.refuse(nodeText(*operation.nodes.front()) +
                   " reads a value that the model detaches ('" + displayName(*name) +
                   "'), and the file does not show which of its operands that is: training would "
                   "send a gradient through it");
  }
}
