//===- ExpertLoad.h - How rows are spread over experts --------------------===//
#ifndef SHALE_PASSES_AUTODIFF_EXPERTLOAD_H
#define SHALE_PASSES_AUTODIFF_EXPERTLOAD_H

#include "mlir/IR/Builders.h"

namespace shale {

/// Counts the rows of each expert where the forward pass multiplies them, and makes three metrics
/// of each layer: the shares of the experts with the most and with the fewest rows, and the entropy
/// of the shares, 1 if all are equal. They are those of all ranks in the last micro-batch.
class ExpertLoad {
public:
  explicit ExpertLoad(mlir::OpBuilder &builder) : builder(builder) {}

  /// Counts in the body of a step, which has the forward pass.
  void count(mlir::Block &body);
  /// Builds the metrics, f32 scalars named "experts/MODULE/FIELD".
  llvm::SmallVector<std::pair<std::string, mlir::Value>> build(mlir::Location loc);

private:
  struct Layer {
    std::string module;
    mlir::Value counts; ///< by expert, in f32
  };

  mlir::OpBuilder &builder;
  llvm::SmallVector<Layer> layers;
};

} // namespace shale

#endif // SHALE_PASSES_AUTODIFF_EXPERTLOAD_H
