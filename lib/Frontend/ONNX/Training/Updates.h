//===- Updates.h - Optimizers of a file's training step -------------------===//
#ifndef SHALE_FRONTEND_ONNX_TRAINING_UPDATES_H
#define SHALE_FRONTEND_ONNX_TRAINING_UPDATES_H

#include "lib/Frontend/ONNX/Training/StepGraph.h"

namespace shale::onnx {

/// The `update_binding` of a file: initializers, and the values that they have after a step.
struct Bindings {
  llvm::StringMap<std::string> values;
  std::vector<std::string> order;
};

/// Gradients of a loss: initializers by the name of the gradient.
struct GradientNames {
  std::string loss;
  /// The names that the loss is computed from.
  llvm::StringSet<> reached;
  /// The parameter of each gradient.
  llvm::StringMap<std::string> parameters;

  bool isTrained(llvm::StringRef name) const {
    return llvm::any_of(parameters, [&](const auto &entry) { return entry.second == name; });
  }
};

/// Reads the bindings; fails, with an error, if a key or a value is none.
mlir::LogicalResult readBindings(ImportContext &context,
                                 const llvm::StringMap<const TensorProto *> &initializers,
                                 Bindings &bindings);

/// Finds the optimizer that computes all bound values, and the parameters that it updates.
mlir::LogicalResult readUpdates(ImportContext &context, const StepGraph &step,
                                const Bindings &bindings, const GradientNames &gradients,
                                FileTraining &training);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_TRAINING_UPDATES_H
