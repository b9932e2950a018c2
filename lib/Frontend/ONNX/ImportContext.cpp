//===- ImportContext.cpp - What all stages of an import share -------------===//
#include "lib/Frontend/ONNX/ImportContext.h"
#include "lib/Frontend/ONNX/Record/Signature.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

StringRef onnx::nameOf(const NodeProto &node) {
  return node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
}

std::string onnx::placeOf(const NodeProto &node) {
  return "node '" + displayName(nameOf(node)) + "' (" + displayName(node.op_type()) + ")";
}

void onnx::emitNote(Location location, const Twine &message) {
  Diagnostic note(location, DiagnosticSeverity::Note);
  note << message;
  location.getContext()->getDiagEngine().emit(std::move(note));
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

InFlightDiagnostic ImportContext::errorOf(int code, const Twine &message) {
  exitCode = code;
  failed = true;
  if (!current.node)
    return emitError(fileLocation()) << model.path() << ": " << message;
  return emitError(locationOf(*current.node))
         << model.path() << ": " << current.text << ": " << message;
}

InFlightDiagnostic ImportContext::errorOn(const NodeProto &node, const Twine &message) {
  Place outer = enter(node, placeOf(node));
  InFlightDiagnostic diagnostic = error(message);
  leave(std::move(outer));
  return diagnostic;
}

InFlightDiagnostic ImportContext::errorAt(Location location, const Twine &message) {
  exitCode = SHALE_EXIT_DATA;
  failed = true;
  return emitError(location) << model.path() << ": " << message;
}

LogicalResult ImportContext::countWork(int64_t nodes) {
  nodeCount += nodes;
  if (nodeCount > kMaxNodes)
    return error("with its functions and loops unrolled, the graph has more than " +
                 Twine(kMaxNodes) + " nodes: use fewer iterations");
  return success();
}
