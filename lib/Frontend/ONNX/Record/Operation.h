//===- Operation.h - Operations of the exported program -------------------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_OPERATION_H
#define SHALE_FRONTEND_ONNX_RECORD_OPERATION_H

#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"

namespace shale::onnx {

/// A read of a float initializer by a node.
struct Use {
  const NodeProto *node;
  int operand;
  const TensorProto *initializer;
};

/// An operation of the exported program and the nodes that it was exported to.
struct TracedOperation {
  FxNode fx;
  std::string scope;
  std::vector<const NodeProto *> nodes;
  std::vector<Use> uses;

  /// Returns "lerp" for "aten.lerp.Tensor".
  llvm::StringRef kind() const;
  /// Whether its nodes read arguments unchanged, perhaps in another layout. Of operations without a
  /// form.
  bool readsAsItIs() const;
  /// Returns the number of the argument of this name ("sub_1"), or -1.
  int argumentOf(llvm::StringRef name) const;
  bool isGroupNorm() const { return words::is(kind(), words::Trait::IsGroupNorm); }
  /// Whether the exporter itself adds an operand: it exports aten.group_norm as an
  /// InstanceNormalization of ones and zeros, and a product and a sum that read the parameters.
  bool isOfExporter(const NodeProto &node, int operand) const;
};

/// Whether a matmul transposes its second operand.
bool readsTransposed(const NodeProto &node);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_OPERATION_H
