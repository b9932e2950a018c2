//===- LossChoice.h - Which values of the graph the loss is computed from -===//
#ifndef SHALE_FRONTEND_ONNX_LOSSCHOICE_H
#define SHALE_FRONTEND_ONNX_LOSSCHOICE_H

#include "lib/Frontend/ONNX/Gradients.h"

namespace shale::onnx {

/// An output that is the loss, or a term of it.
struct LossTerm {
  std::string output;
  double weight = 1;
};

/// The loss: a weighted sum of outputs, or a form of --loss.
struct LossChoice {
  std::vector<LossTerm> terms;
  std::string kind; // "mse"; empty: the terms
  std::string logits, labels;
  bool isOfStep = false; // of the training step that the file defines

  bool isEmpty() const { return kind.empty() && terms.empty(); }
  /// Whether it is an output of the graph as it is.
  bool isPlain() const { return kind.empty() && terms.size() == 1 && terms.front().weight == 1; }
};

/// Takes the loss of the flags; without one, the only scalar output that is no gradient. Fails,
/// with an error, if a flag is invalid or the graph does not show which output is the loss.
mlir::FailureOr<LossChoice> chooseLoss(ImportContext &context, const GradientOutputs &gradients);

/// Returns the names that the loss and the gradients are computed from.
llvm::SmallVector<llvm::StringRef> rootsOf(const LossChoice &loss,
                                           const GradientOutputs &gradients);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_LOSSCHOICE_H
