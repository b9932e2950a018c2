//===- Operation.h - Operations of the exported program -------------------===//
#ifndef SHALE_FRONTEND_ONNX_OPERATION_H
#define SHALE_FRONTEND_ONNX_OPERATION_H

#include "lib/Frontend/ONNX/Signature.h"

namespace shale::onnx {

/// A read of a float initializer by a node.
struct Use {
  const NodeProto *node;
  int operand;
  const TensorProto *initializer;
};

/// The nodes that one operation of the exported program became.
struct Operation {
  FxNode fx;
  std::string scope;
  std::vector<const NodeProto *> nodes;
  std::vector<Use> uses;
  /// Reads of 1 - w, where the operation reads w too, the `weight` of a lerp.
  std::vector<Use> complements;
  std::optional<Use> weight;

  /// "lerp" of "aten.lerp.Tensor".
  llvm::StringRef kind() const;
  /// Whether its nodes read an operand as it is, perhaps laid out otherwise: not so where the operation computes with it
  /// first (`alpha` of an addition, queries and keys of attention), which an exporter folds into the operand.
  bool readsAsItIs(const Use &use) const;
  /// Finds the two reads of a lerp's weight w. The exporter writes where(w < 0.5, x + w d, y - (1 - w) d) with d = y - x, and
  /// folds w and 1 - w. Fills `weight`, and moves reads of 1 - w from `uses` to `complements`.
  void findComplements();
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_OPERATION_H
