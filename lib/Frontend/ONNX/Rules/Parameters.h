//===- Parameters.h - Which initializers are which parameters -------------===//
#ifndef SHALE_FRONTEND_ONNX_RULES_PARAMETERS_H
#define SHALE_FRONTEND_ONNX_RULES_PARAMETERS_H

#include "lib/Frontend/ONNX/Import.h"
#include "lib/Frontend/ONNX/Reader/Model.h"
#include "lib/Frontend/ONNX/Rules/Expression.h"
#include "lib/Frontend/ONNX/Rules/Refusal.h"
#include "llvm/ADT/DenseMap.h"
#include <map>
#include <string>
#include <vector>

namespace shale::onnx {

/// A parameter or buffer as PyTorch defines it.
struct Parameter {
  std::string name;
  std::vector<std::string> aliases; // further names of a tied parameter
  bool isParameter = true;          // else a buffer
  /// The initializer that holds its initial value, or null: see `values`.
  const TensorProto *initializer = nullptr;
  /// Whether the initializer is its transpose.
  bool transposed = false;
  bool used = false;
  /// Without an initializer: its shape and ONNX element type.
  std::vector<int64_t> shape = {};
  int32_t dataType = 1;
  /// Without an initializer: its elements as they were before the export folded them; empty: zeros.
  std::vector<double> values = {};
  /// Whether it is a buffer that the module changes in its forward pass.
  bool isChanged = false;

  /// Takes the initial value, shape and type of another parameter, and counts as used.
  void takeValueOf(const Parameter &other) {
    initializer = other.initializer;
    transposed = other.transposed;
    shape = other.shape;
    dataType = other.dataType;
    values = other.values;
    used = true;
  }
};

/// The parameter that a node's operand is read from.
struct ParameterUse {
  size_t parameter;
  /// Whether the node reads the transpose of the parameter.
  bool transposed = false;
  /// Index into Parameters::expressions of the function of the parameter that the node reads; -1:
  /// the parameter itself.
  int expression = -1;
};

/// An operation that the exporter merged with an equal one: both read the same value, and their
/// parameters have equal initial values. The importer computes it again with the same nodes and its
/// own parameters.
struct MergedOperation {
  /// The module whose parameters it reads.
  std::string module;
  /// Its nodes in graph order. The first result of the last node is the operation's result.
  std::vector<const NodeProto *> nodes;
  /// Parameters read, by node and operand, and dropped biases, by node.
  std::map<std::pair<const NodeProto *, int>, ParameterUse> uses;
  llvm::DenseMap<const NodeProto *, size_t> lostBias;
};

/// A node reads a value under the name of an operation that the exporter merged with an equal one.
struct MergedName {
  std::pair<const NodeProto *, int> read;
  std::string name;
  const NodeProto *kept; // that computes the value
  std::string target;    // of both operations
};

/// A repair of the graph, reported as a remark on the node.
struct Repair {
  const NodeProto *node; // null: the whole graph
  std::string text;
  bool isNote = false; // shown without --remarks
};

struct Parameters {
  std::vector<Parameter> list; // in PyTorch's order
  /// Parameters read, by node and operand index.
  std::map<std::pair<const NodeProto *, int>, ParameterUse> uses;
  /// Zero biases that the exporter dropped, by the matmul or norm that had them.
  llvm::DenseMap<const NodeProto *, size_t> lostBias;
  /// Computations that the exporter folded.
  std::vector<Expression> expressions;
  /// Merged operations, and the index of the one that is read, by node and operand.
  std::vector<MergedOperation> merged;
  std::map<std::pair<const NodeProto *, int>, size_t> readsOfMerged;
  std::vector<MergedName> mergedNames;
  /// Operations that the exporter removed, by the node and the operand that read the result. The
  /// importer computes them again.
  std::map<std::pair<const NodeProto *, int>, Expression> restored;
  std::vector<Repair> repairs;
  /// Why the file is refused; empty if it is not.
  std::vector<Refusal> refusals;
  std::vector<std::string> notes; // for the user
  /// Parameters of the signature that the program does not have: unused, or frozen and folded.
  std::vector<std::string> absent;
  /// Whether the file has a signature, which lists its parameters.
  bool hasSignature = false;
  /// The first component of all names, with its dot, if they share it and it was
  /// dropped.
  std::string prefix;
};

/// Whether a parameter may have this ONNX element type: f16, bf16, f32 or f64.
bool isFloatType(int32_t dataType);
inline bool isFloat(const TensorProto &tensor) { return isFloatType(tensor.data_type()); }

/// Whether it has integers, and no truth values.
bool isInteger(const TensorProto &tensor);

/// Whether it has one element, whatever the rank: an epsilon or a scale, never a
/// parameter that an exporter would have renamed.
bool isScalar(const TensorProto &tensor);

/// Whether the file is as PyTorch's TorchScript exporter wrote it.
bool isScripted(const ModelProto &model);
/// Whether all elements of an initializer have the same bit pattern.
bool isFilled(Model &model, const TensorProto &tensor);
/// Completes the parameters of such a file, of which `out` has every float initializer: tells
/// merged ones apart, and finds those that were transposed. Appends an error for what else was
/// folded.
void restoreScripted(Model &model, const ParameterOptions &options, Parameters &out);

/// Takes the initializers of these names as parameters and as buffers.
Parameters findNamed(Model &model, const std::vector<std::string> &trained,
                     const std::vector<std::string> &frozen);

class TracedProgram;

/// Finds the parameters from the exporter's metadata if there is any, else by
/// rule: every float initializer that is not a scalar is a parameter, and one whose
/// elements are all equal and that several module scopes read is split, as it was
/// merged.
Parameters findParameters(Model &model, const TracedProgram &program,
                          const ParameterOptions &options);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RULES_PARAMETERS_H
