//===- Losses.h - The loss, and gradients that the graph computes ---------===//
#ifndef SHALE_FRONTEND_ONNX_LOSS_LOSSES_H
#define SHALE_FRONTEND_ONNX_LOSS_LOSSES_H

#include "lib/Analysis/LossParts.h"
#include "lib/Frontend/ONNX/Inputs/States.h"
#include "lib/Frontend/ONNX/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/Support/LogicalResult.h"
#include "llvm/ADT/DenseMap.h"
#include <vector>

namespace shale::onnx {

class Building;
class Inputs;
struct LossChoice;

/// Losses that are known to be a sum over a count.
using KnownLosses = llvm::DenseMap<mlir::Value, LossParts>;

/// The loss of the model.
struct Loss {
  mlir::Value value;
  LossParts parts;
  std::vector<LossParts> labeled; // its terms that have labels
};

/// Builds the loss that was chosen. Adds an input for labels that the graph does not have. Fails,
/// with an error, if a value cannot be a loss, or labels do not fit.
mlir::FailureOr<Loss> makeLoss(Building &building, const LossChoice &choice, Inputs &inputs);

/// Builds nn.cross_entropy of logits [N, V] and labels [N].
LossParts buildCrossEntropy(Node &node, Tensor logits, Tensor labels, int64_t ignore);
/// Builds sum / max(count, 1).
Tensor buildMean(Node &node, const LossParts &parts);

/// An output that is the loss, or a term of it.
struct LossTerm {
  std::string output;
  double weight = 1;
};

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

/// The loss: a weighted sum of outputs, or a form of --loss.
struct LossChoice {
  std::vector<LossTerm> terms;
  std::string kind; // "mse"; empty: the terms
  std::string logits, labels;
  bool isOfStep = false; // of the training step that the file defines
};

/// Takes the loss of the flags; without one, the only scalar output that is no gradient. Fails,
/// with an error, if a flag is invalid or the graph does not show which output is the loss.
mlir::FailureOr<LossChoice> chooseLoss(ImportContext &context, const GradientOutputs &gradients);

/// Finds the outputs that may be gradients of parameters. Fails, with an error, if a flag names
/// another output.
mlir::FailureOr<GradientOutputs> findGradientOutputs(ImportContext &context);

/// Matches these outputs with the parameters. Fails, with an error, if a parameter has two, or if
/// they are not the gradients of all trained parameters, or of another loss.
mlir::FailureOr<std::vector<Gradient>> matchGradients(ImportContext &context,
                                                      const GradientOutputs &outputs,
                                                      const LossChoice &loss, const States &states);

/// Returns the value of each gradient, of its parameter's type.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
readGradients(ImportContext &context, const States &states, llvm::ArrayRef<Gradient> gradients);

/// Returns the value of an output. Fails, with an error, if no node defines it.
mlir::FailureOr<mlir::Value> outputNamed(ImportContext &context, llvm::StringRef name);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_LOSS_LOSSES_H
