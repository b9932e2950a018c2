//===- Functions.cpp - Nodes of autograd.Functions ------------------------===//
//
// An exported graph has the forward of a torch.autograd.Function, and not its backward. The stack
// trace of a node has the calls of functions called `forward`: those of modules, of their base
// classes, and of autograd.Functions.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Checks.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Regex.h"

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

StringRef onnx::functionOf(const NodeProto &node) {
  static const llvm::Regex apply("(^|[^A-Za-z_0-9])([A-Z][A-Za-z_0-9]*)\\.apply\\(");
  StringRef trace = metadata(node.metadata_props(), "pkg.torch.onnx.stack_trace");
  SmallVector<StringRef> groups;
  return trace.contains(".apply(") && apply.match(trace, &groups) ? groups[2] : "";
}

std::string onnx::foreignForwardOf(const NodeProto &node) {
  // Lines come in pairs: `File "model.py", line 12, in forward`, then the line of source.
  SmallVector<StringRef> lines;
  metadata(node.metadata_props(), "pkg.torch.onnx.stack_trace").split(lines, '\n');
  size_t forwards = 0, ofBase = 0;
  StringRef file, text;
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    auto [path, rest] = lines[i].ltrim().split("\", line ");
    if (!path.consume_front("File \"") || !rest.consume_back(", in forward"))
      continue;
    ofBase += text.contains("forward("); // `super().forward(x)`
    file = path, text = lines[i + 1].trim();
    ++forwards;
  }
  SmallVector<StringRef> scopes; // the operation's own is last
  metadata(node.metadata_props(), "pkg.torch.onnx.name_scopes").split(scopes, ',');
  bool isForeign = scopes.size() > 1 && forwards > scopes.size() - 1 + ofBase;
  // Losses and activations of modules that are no part of another one.
  if (!isForeign || text.contains("self") || file.contains("/torch/nn/") ||
      file.starts_with("<eval_with_key>"))
    return "";
  return llvm::sys::path::filename(file).str() + ", '" + displayName(text) + "'";
}
