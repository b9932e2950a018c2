//===- Signature.h - What PyTorch's exporter wrote beside the graph -------===//
#ifndef SHALE_FRONTEND_ONNX_SIGNATURE_H
#define SHALE_FRONTEND_ONNX_SIGNATURE_H

#include "lib/Frontend/ONNX/Model.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>
#include <string>
#include <vector>

namespace shale::onnx {

/// One line of `pkg.torch.export.ExportedProgram.graph_signature`.
struct SignatureEntry {
  std::string placeholder; // p_m_h_0_ln_1_bias
  std::string target;      // m.h.0.ln_1.bias
  bool isParameter;        // else a buffer
};

/// The parameters and buffers of the exported program, in PyTorch's order;
/// empty when the file has no signature.
std::vector<SignatureEntry> readSignature(const GraphProto &graph);

/// The names of all inputs of the exported program: parameters, buffers, constants, the user's.
std::vector<std::string> readPlaceholders(const GraphProto &graph);

/// A node's `pkg.torch.onnx.fx_node`.
struct FxNode {
  std::string name;              // addmm_3
  std::string target;            // aten.addmm.default
  std::vector<std::string> args; // every %name of args and kwargs, in order
  std::vector<std::string> positional; // args as they are written
  std::string kwargs;            // {alpha: 0.3}
};

/// The module that has a parameter or buffer: "m.h.0" of "m.h.0.weight"; empty: the model itself.
llvm::StringRef moduleOf(llvm::StringRef target);
/// The name of a parameter or buffer in its module: "weight" of "m.h.0.weight".
llvm::StringRef lastOf(llvm::StringRef target);

/// Parses it; the name is empty when the node has none.
FxNode readFxNode(const NodeProto &node);

/// The module scope a node comes from ("m.h.0.attn"): metadata, else the path
/// in the node's name ("/h.0/attn/MatMul"). Empty: the model itself, outside of all
/// its modules; none where the file does not say.
std::optional<std::string> readScope(const NodeProto &node);

/// The line of Python a node comes from, the innermost of its
/// `pkg.torch.onnx.stack_trace`; an empty file where the file does not say.
struct SourceLine {
  std::string file;
  unsigned line = 0;
};
SourceLine readSourceLine(const NodeProto &node);

/// The module scopes around a node with their classes, outermost first, from
/// `pkg.torch.onnx.name_scopes` and `class_hierarchy`; empty without them.
std::vector<std::pair<std::string, std::string>>
readClasses(const NodeProto &node);

/// The innermost line of the model's source that a node comes from, without
/// indentation; empty where the file does not tell.
llvm::StringRef readSourceText(const NodeProto &node);

/// The value of a metadata entry, or an empty string.
llvm::StringRef metadata(
    const google::protobuf::RepeatedPtrField<StringStringEntryProto> &entries,
    llvm::StringRef key);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_SIGNATURE_H
