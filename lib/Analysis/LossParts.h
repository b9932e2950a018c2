//===- LossParts.h - The sum, the count and the labels of a loss ----------===//
#ifndef SHALE_ANALYSIS_LOSSPARTS_H
#define SHALE_ANALYSIS_LOSSPARTS_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace shale {

namespace nn {
class DivOp;
} // namespace nn

/// A loss that is sum / max(count, 1).
struct LossParts {
  mlir::Value sum, count;               // scalars
  mlir::Value labels = {}, logits = {}; // of the cross-entropy; null: it has none
  /// Whether the labels were found among basic ops that compute a loss: they may be something else.
  bool isGuess = false;
};

/// Finds a mean over data among the terms and factors of a scalar: a quotient by a sum that depends
/// on inputs, and on no state. Null if there is none.
nn::DivOp findMean(mlir::Value loss, llvm::function_ref<bool(mlir::Value)> isState);

/// Returns the count of a divisor: c of c, max(c, number) and select(.., c, number).
mlir::Value countIn(mlir::Value divisor);

/// Sets the labels and logits that are nearest to a loss, if there are any.
void findLabels(mlir::Value loss, LossParts &parts);

} // namespace shale

#endif // SHALE_ANALYSIS_LOSSPARTS_H
