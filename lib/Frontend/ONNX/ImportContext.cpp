//===- ImportContext.cpp - What all stages of an import share -------------===//
#include "lib/Frontend/ONNX/ImportContext.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

std::string onnx::placeOf(const NodeProto &node) {
  return "node '" + displayName(nameOf(node)) + "' (" + displayName(node.op_type()) + ")";
}

ImportContext::ImportContext(Model &model, const ImportOptions &options, ModuleOp module,
                             Block &body)
    : model(model), options(options), module(module), body(body), builder(module.getContext()) {
  builder.setInsertionPointToEnd(&body);
}

llvm::Expected<DenseElementsAttr> ImportContext::readConstant(const TensorProto &tensor) {
  return model.read(mlirContext(), tensor, kConstantLimit);
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

Location ImportContext::fileLocation() const {
  return FileLineColLoc::get(mlirContext(), model.path(), 0, 0);
}

Location ImportContext::locationOf(const NodeProto &node) const {
  auto named = [&](const std::string &text, Location child) {
    return NameLoc::get(StringAttr::get(mlirContext(), text), child);
  };
  // The name's location contains the node's module and its line of Python.
  Location below = fileLocation();
  if (SourceLine source = readSourceLine(node); !source.file.empty())
    below = FileLineColLoc::get(mlirContext(), displayName(source.file), source.line, 0);
  // The model itself has no name.
  if (std::string scope = scopeOf(readScope(node).value_or("")); !scope.empty())
    below = named(scope, below);
  return named(displayName(nameOf(node)), below);
}

std::string ImportContext::scopeOf(StringRef module) const {
  module.consume_front(prefix);
  if (prefix == (module + ".").str())
    module = "";
  return displayName(module);
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

InFlightDiagnostic ImportContext::errorHere(const Twine &message, int code) {
  return current.node ? errorAt(locationOf(*current.node), current.text + ": " + message, code)
                      : errorAt(fileLocation(), message, code);
}

InFlightDiagnostic ImportContext::errorAt(Location location, const Twine &message, int code) {
  exitCode = code;
  failed = true;
  return emitError(location) << model.path() << ": " << message;
}

InFlightDiagnostic ImportContext::refuse(ArrayRef<Refusal> refusals) {
  auto texts = llvm::map_range(refusals, [](const Refusal &each) { return each.text; });
  const NodeProto *node = refusals.size() == 1 ? refusals.front().node : nullptr;
  return errorAt(node ? locationOf(*node) : fileLocation(), llvm::join(texts, "\n  "));
}

LogicalResult ImportContext::countWork(int64_t nodes) {
  nodeCount += nodes;
  if (nodeCount > kMaxNodes)
    return error("with its functions and loops unrolled, the graph has more than " +
                 Twine(kMaxNodes) + " nodes: use fewer iterations");
  return success();
}
