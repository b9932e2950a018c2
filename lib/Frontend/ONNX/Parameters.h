//===- Parameters.h - Which initializers are which parameters -------------===//
#ifndef SHALE_FRONTEND_ONNX_PARAMETERS_H
#define SHALE_FRONTEND_ONNX_PARAMETERS_H

#include "lib/Frontend/ONNX/Expression.h"
#include "lib/Frontend/ONNX/Model.h"
#include "lib/Frontend/ONNX/ParameterOptions.h"
#include "llvm/ADT/DenseMap.h"
#include <map>
#include <string>
#include <vector>

namespace shale::onnx {

/// A parameter or buffer as PyTorch has it.
struct Parameter {
  std::string name;
  std::vector<std::string> aliases; // further names of a tied parameter
  bool isParameter = true;          // else a buffer
  /// The initializer that holds its initial value, or null: all zeros.
  const TensorProto *initializer = nullptr;
  /// The initializer is its transpose.
  bool transposed = false;
  bool used = false;
  /// Without an initializer: its shape and ONNX element type.
  std::vector<int64_t> shape = {};
  int32_t dataType = 1;
  /// Without an initializer: its elements as they were before the export folded them; empty: zeros.
  std::vector<double> values = {};
};

/// What a node's operand is read from, when that is a parameter.
struct ParameterUse {
  size_t parameter;
  /// The node reads the transpose of the parameter.
  bool transposed = false;
  /// The node reads this function of the parameter, an index of Parameters::expressions; -1: the parameter itself.
  int expression = -1;
};

/// An operation that the exporter merged with an equal one: both read one value, by parameters of equal initial
/// values. It is computed again by the same nodes, with parameters of its own.
struct MergedOperation {
  /// The module whose parameters it reads.
  std::string module;
  /// In the graph's order; the last one's first result is the operation's.
  std::vector<const NodeProto *> nodes;
  /// By node and operand, and biases that were dropped, by node.
  std::map<std::pair<const NodeProto *, int>, ParameterUse> uses;
  llvm::DenseMap<const NodeProto *, size_t> lostBias;
};

/// A repair of the graph, reported as a remark on the node.
struct Repair {
  const NodeProto *node; // null: the whole graph
  std::string text;
  bool isNote = false; // shown without --remarks
};

struct Parameters {
  std::vector<Parameter> list; // in PyTorch's order
  /// By node and operand index.
  std::map<std::pair<const NodeProto *, int>, ParameterUse> uses;
  /// A zero bias that the exporter dropped from this product or norm.
  llvm::DenseMap<const NodeProto *, size_t> lostBias;
  /// Computations that the exporter folded.
  std::vector<Expression> expressions;
  /// Merged operations, and which operands of which nodes read them.
  std::vector<MergedOperation> merged;
  std::map<std::pair<const NodeProto *, int>, size_t> readsOfMerged;
  std::vector<Repair> repairs;
  /// What must not pass in silence and what a user should see, one message each.
  std::vector<std::string> errors, notes;
  /// Listed parameters that the program does not have: unused or frozen and folded away.
  std::vector<std::string> absent;
  /// Whether the file says which are parameters.
  bool hasSignature = false;
  /// The component that all names began with and that was dropped, with its
  /// dot.
  std::string prefix;
};

/// Whether it can be a parameter by its type.
bool isFloat(const TensorProto &tensor);

/// One element, whatever the rank: an epsilon, a scale, never a parameter that
/// an exporter would have renamed.
bool isScalar(const TensorProto &tensor);

/// Finds parameters without a signature.
void findByRule(Model &model, Parameters &out);

/// Finds them: from the exporter's metadata if there is any, else by rule:
/// every float initializer that is no scalar; one of equal elements that
/// several module scopes read was merged.
Parameters findParameters(Model &model, const ParameterOptions &options);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_PARAMETERS_H
