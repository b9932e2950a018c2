//===- Signature.h - Metadata of PyTorch's exporter -----------------------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_SIGNATURE_H
#define SHALE_FRONTEND_ONNX_RECORD_SIGNATURE_H

#include "lib/Frontend/ONNX/Record/Argument.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
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

/// The signature of the exported program.
struct Signature {
  /// Parameters and buffers, in PyTorch's order.
  std::vector<SignatureEntry> entries;
  /// The names of all inputs: parameters, buffers, constants and those that the user passes.
  std::vector<std::string> placeholders;
  llvm::StringSet<> userInputs;
  /// The targets of buffers that state_dict() leaves out.
  llvm::StringSet<> transient;
  /// The targets of what the module changes in its forward pass, buffers and parameters, by the
  /// names of their new values.
  llvm::StringMap<std::string> changed;
  /// The targets of parameters, by the names of their gradients in the exported program.
  llvm::StringMap<std::string> gradients;
};

/// Reads the signature; empty if the file has none.
Signature readSignature(const GraphProto &graph);

/// A node's `pkg.torch.onnx.fx_node`.
struct FxNode {
  std::string name;              // addmm_3
  std::string target;            // aten.addmm.default
  std::vector<std::string> args; // every %name of args and kwargs, in order
  /// The arguments by position, which have no name here, then those by name.
  std::vector<std::pair<std::string, Argument>> arguments;

  /// Returns an argument by its position or its name; null if it is not there.
  const Argument *argument(size_t position, llvm::StringRef name = "") const;
  /// The same as a number; True is 1. None if it is not there, or is no number.
  std::optional<double> number(size_t position, llvm::StringRef name = "") const;
};

/// Returns the module of a parameter or buffer: "m.h.0" for "m.h.0.weight"; empty for the model
/// itself.
llvm::StringRef moduleOf(llvm::StringRef target);
/// Returns the name of a parameter or buffer in its module: "weight" for "m.h.0.weight".
llvm::StringRef lastOf(llvm::StringRef target);

/// Returns the kind of operation that a value of the exported program is named
/// after: "sub" for "sub_3"; empty for names that the exporter generates
/// ("val_12").
std::string operationOf(llvm::StringRef name);
/// Returns 3 for "mul_3", 0 for "mul".
int64_t numberOf(llvm::StringRef name);

/// Parses a node's `pkg.torch.onnx.fx_node`; the name is empty if it has none.
FxNode readFxNode(const NodeProto &node);

/// How a BatchNormalization normalizes. PyTorch's exporter writes no training_mode, but the record
/// of the operation has it.
struct BatchNorm {
  bool isTraced = false;          // whether the record has the operation
  bool inTraining = false;        // by the statistics of the batch
  bool keepsStatistics = true;    // else operands 3 and 4 only fill their places
  std::optional<double> momentum; // the share of the batch, as the user wrote it
};
BatchNorm readBatchNorm(const NodeProto &node);
/// Whether an operand is a running statistic that the node changes.
bool changesBuffer(const NodeProto &node, int operand);

/// Returns the dropout_p of an operation of attention; none if it is no such operation.
std::optional<double> attentionDropout(const FxNode &fx);

/// Returns the module scope that a node comes from ("m.h.0.attn"): from metadata,
/// else from the path in the node's name ("/h.0/attn/MatMul"). Empty for the model
/// itself, outside of all its modules; none if the file has no scope.
std::optional<std::string> readScope(const NodeProto &node);

/// The line of Python that a node comes from, the innermost of its
/// `pkg.torch.onnx.stack_trace`; `file` is empty if the node has none.
struct SourceLine {
  std::string file;
  unsigned line = 0;
};
SourceLine readSourceLine(const NodeProto &node);

/// Returns the module scopes around a node with their classes, outermost first,
/// from `pkg.torch.onnx.name_scopes` and `class_hierarchy`; empty without them.
std::vector<std::pair<std::string, std::string>> readClasses(const NodeProto &node);

/// Returns the innermost line of the model's source that a node comes from,
/// without indentation; empty if the node has none.
llvm::StringRef readSourceText(const NodeProto &node);

/// Returns the value of a metadata entry, or an empty string.
llvm::StringRef metadata(const google::protobuf::RepeatedPtrField<StringStringEntryProto> &entries,
                         llvm::StringRef key);

/// Returns the names of the values, initializers included, from which the exporter's optimizer
/// computed a folded value: its `pkg.onnxscript.optimizer.folded_from`, a list as Python prints it.
/// Empty without one.
std::vector<std::string> readFoldedFrom(const ValueInfoProto &value);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_SIGNATURE_H
