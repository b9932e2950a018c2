//===- Losses.h - Losses as sums over counts ------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_LOSSES_H
#define SHALE_FRONTEND_ONNX_LOSSES_H

#include "mlir/IR/Builders.h"
#include "mlir/Support/LogicalResult.h"
#include "llvm/ADT/DenseMap.h"
#include <vector>

namespace shale::onnx {

class ImportContext;
class Inputs;
struct LossChoice;
struct Scope;
struct States;

/// A loss as a sum over a count.
struct LossParts {
  mlir::Value sum, count;
  mlir::Value labels = {}, logits = {}; // of the cross-entropy
  /// Whether the labels were found in a loss that is written out: they may be something else.
  bool isGuess = false;
};

/// Losses that are known to be a sum over a count.
using KnownLosses = llvm::DenseMap<mlir::Value, LossParts>;

/// The loss of the model.
struct Loss {
  mlir::Value value;
  LossParts parts;
  std::vector<LossParts> labeled; // its terms that have labels
};

/// Builds the loss that was chosen. `known`: of the graph's nodes; `graph`: the scope of the
/// model's graph. Adds an input for labels that the graph does not have. Fails, with an error, if
/// a value cannot be a loss, or labels do not fit.
mlir::FailureOr<Loss> makeLoss(ImportContext &context, const LossChoice &choice,
                               const KnownLosses &known, const States &states, Scope &graph,
                               Inputs &inputs);

/// Builds nn.cross_entropy of logits [N, V] and labels [N].
LossParts buildCrossEntropy(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value logits,
                            mlir::Value labels, int64_t ignore);
/// Writes `loss` as a mean over `count`, with the divisor of `mean`, which is a mean over it: the
/// sum is the loss times that divisor. Replaces `loss` by the quotient.
LossParts asMean(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value &loss, mlir::Value mean,
                 mlir::Value count);
/// Builds sum / max(count, 1).
mlir::Value buildMean(mlir::OpBuilder &builder, mlir::Location loc, const LossParts &parts);

/// Finds the sum and the count of a loss that is written out, and its labels. Returns the loss
/// itself over 1 if it is no mean over data. May replace `loss`, a scalar, by an equal value.
LossParts recognizeLoss(mlir::OpBuilder &builder, mlir::Location loc, const States &states,
                        mlir::Value &loss);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_LOSSES_H
