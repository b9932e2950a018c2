//===- Gradients.h - Gradients that the graph computes --------------------===//
#ifndef SHALE_FRONTEND_ONNX_LOSS_GRADIENTS_H
#define SHALE_FRONTEND_ONNX_LOSS_GRADIENTS_H

#include "lib/Frontend/ONNX/States.h"

namespace shale::onnx {

struct LossChoice;

/// An output that may be the gradient of a parameter, and what says so.
struct GradientOutput {
  std::string target, output;
  enum From { Flag, Signature, Name, Word } from;
};

struct GradientOutputs {
  std::vector<GradientOutput> list;

  bool contains(llvm::StringRef name) const {
    return llvm::any_of(list, [&](const GradientOutput &each) { return each.output == name; });
  }
};

/// The gradient of a parameter.
struct Gradient {
  size_t parameter; // index into Parameters::list
  std::string output;
};

/// Finds the outputs that may be gradients of parameters. Fails, with an error, if a flag names
/// another output.
mlir::FailureOr<GradientOutputs> findGradientOutputs(ImportContext &context);

/// Matches these outputs with the parameters. Fails, with an error, if they are not the gradients
/// of all trained parameters, or of another loss.
mlir::FailureOr<std::vector<Gradient>> matchGradients(ImportContext &context,
                                                      const GradientOutputs &outputs,
                                                      const LossChoice &loss, const States &states);

/// Returns the value of each gradient, of its parameter's type.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
readGradients(ImportContext &context, const States &states, llvm::ArrayRef<Gradient> gradients);

/// Returns the value of an output. Fails, with an error, if no node defines it.
mlir::FailureOr<mlir::Value> outputNamed(ImportContext &context, llvm::StringRef name);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_LOSS_GRADIENTS_H
