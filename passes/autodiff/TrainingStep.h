//===- TrainingStep.h - From @forward to @step and @evaluate --------------===//
#ifndef SHALE_PASSES_AUTODIFF_TRAININGSTEP_H
#define SHALE_PASSES_AUTODIFF_TRAININGSTEP_H

#include "llvm/Support/LogicalResult.h"
#include <cstdint>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace shale {

namespace nn {
struct Optimizer;
} // namespace nn

/// Replaces @forward by @step and @evaluate, and, if a step has several
/// micro-batches, by the functions that accumulate; see AutodiffPass.
llvm::LogicalResult buildTrainingStep(mlir::ModuleOp module, const nn::Optimizer &optimizer,
                                      int64_t microbatches);

} // namespace shale

#endif // SHALE_PASSES_AUTODIFF_TRAININGSTEP_H
