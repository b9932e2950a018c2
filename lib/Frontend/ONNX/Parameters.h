//===- Parameters.h - Which initializers are which parameters -------------===//
#ifndef SHALE_FRONTEND_ONNX_PARAMETERS_H
#define SHALE_FRONTEND_ONNX_PARAMETERS_H

#include "lib/Frontend/ONNX/Model.h"
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
  /// Of a bias that was dropped: its shape and ONNX element type.
  std::vector<int64_t> shape = {};
  int32_t dataType = 1;
};

/// What a node's operand is read from, when that is a parameter.
struct ParameterUse {
  size_t parameter;
  /// The node reads the transpose of the parameter.
  bool transposed = false;
};

/// A repair of the graph, reported as a remark on the node.
struct Repair {
  const NodeProto *node; // null: the whole graph
  std::string text;
};

struct Parameters {
  std::vector<Parameter> list; // in PyTorch's order
  /// By node and operand index.
  std::map<std::pair<const NodeProto *, int>, ParameterUse> uses;
  /// A zero bias that the exporter dropped from this product or norm.
  llvm::DenseMap<const NodeProto *, size_t> lostBias;
  std::vector<Repair> repairs;
  /// Whether the file says which are parameters.
  bool hasSignature = false;
  /// The component that all names began with and that was dropped, with its
  /// dot.
  std::string prefix;
};

/// Finds them: from the exporter's metadata if there is any, else by rule:
/// every float initializer that is no scalar; one of equal elements that
/// several module scopes read was merged.
Parameters findParameters(Model &model, bool keepPrefix);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_PARAMETERS_H
