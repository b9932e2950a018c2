//===- Functions.cpp - Nodes of autograd.Functions ------------------------===//
//
// An exported graph has the forward of a torch.autograd.Function, and not its backward. The stack
// trace of a node has the calls of functions called `forward`: those of modules, of their base
// classes, and of autograd.Functions.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Checks.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Regex.h"

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

StringRef onnx::functionOf(const NodeProto &node) {
  static const llvm::Regex apply("(^|[^A-Za-z_0-9])([A-Z][A-Za-z_0-9]*)\\.apply\\(");
  StringRef trace = metadata(node.metadata_props(), words::kStackTrace);
  SmallVector<StringRef> groups;
  return trace.contains(".apply(") && apply.match(trace, &groups) ? groups[2] : "";
}

namespace {

/// A call of a function called forward in a stack trace.
struct Frame {
  StringRef file, line, text;
};

} // namespace

/// Returns the calls of functions called forward, the innermost last. PyTorch's own functions for
/// activation checkpointing are left out: what they call has the gradients of its operations.
static SmallVector<Frame> readForwards(StringRef trace) {
  // Lines come in pairs: `File "model.py", line 12, in forward`, then the line of source.
  SmallVector<StringRef> lines;
  trace.split(lines, '\n');
  SmallVector<Frame> frames;
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    auto [path, rest] = lines[i].ltrim().split("\", line ");
    if (path.consume_front("File \"") && rest.consume_back(", in forward") &&
        !path.ends_with("torch/utils/checkpoint.py"))
      frames.push_back({path, rest, lines[i + 1].trim()});
  }
  return frames;
}

std::optional<ForeignForward> onnx::foreignForwardOf(const NodeProto &node) {
  SmallVector<Frame> frames = readForwards(metadata(node.metadata_props(), words::kStackTrace));
  SmallVector<StringRef> scopes; // the operation's own is last
  metadata(node.metadata_props(), words::kNameScopes).split(scopes, ',');
  if (scopes.size() < 2 || frames.size() < 2)
    return std::nullopt;
  // `super().forward(x)` and `self.layer.forward(x)` are calls without a scope of their own.
  size_t unscoped = llvm::count_if(
      llvm::drop_end(frames), [](const Frame &frame) { return frame.text.contains(".forward("); });
  // Losses and activations of modules that are no part of another one read `self`, or are
  // PyTorch's.
  const Frame &last = frames.back(), &caller = frames[frames.size() - 2];
  if (frames.size() <= scopes.size() - 1 + unscoped || last.text.contains("self") ||
      last.file.contains("/torch/nn/") || last.file.starts_with(words::kGeneratedFile))
    return std::nullopt;
  return ForeignForward{(llvm::sys::path::filename(caller.file) + ":" + caller.line).str(),
                        (llvm::sys::path::filename(last.file) + ":" + last.line + ", '" +
                         displayName(last.text) + "'")
                            .str()};
}
