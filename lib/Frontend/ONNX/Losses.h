//===- Losses.h - Losses as sums over counts ------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_LOSSES_H
#define SHALE_FRONTEND_ONNX_LOSSES_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace shale::onnx {

/// A loss as a sum over a count.
struct LossParts {
  mlir::Value sum, count;
  mlir::Value labels = {}, logits = {}; // of the cross-entropy
  /// Whether the labels were found in a loss that is written out: they may be something else.
  bool isGuess = false;
};

/// Losses that are known to be a sum over a count.
using KnownLosses = llvm::DenseMap<mlir::Value, LossParts>;

/// Builds nn.cross_entropy of logits [N, V] and labels [N].
LossParts buildCrossEntropy(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value logits,
                            mlir::Value labels, int64_t ignore);
/// Writes `loss` as a mean over `count`, with the divisor of `mean`, which is a mean over it: the
/// sum is the loss times that divisor. Replaces `loss` by the quotient.
LossParts asMean(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value &loss, mlir::Value mean,
                 mlir::Value count);
/// Builds sum / max(count, 1).
mlir::Value buildMean(mlir::OpBuilder &builder, mlir::Location loc, const LossParts &parts);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_LOSSES_H
