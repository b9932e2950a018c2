//===- OptimizerModel.h - The optimizer of training artifacts -------------===//
#ifndef SHALE_FRONTEND_ONNX_ARTIFACTS_OPTIMIZERMODEL_H
#define SHALE_FRONTEND_ONNX_ARTIFACTS_OPTIMIZERMODEL_H

#include "lib/Frontend/ONNX/Training/FileTraining.h"

namespace shale::onnx {

/// Reads kind and constants of the optimizer of an optimizer_model.onnx: one AdamWOptimizer or
/// SGDOptimizerV2, after at most one InplaceClipGradNorm. Anything else is an error.
mlir::LogicalResult readOptimizerModel(ImportContext &context, const Model &model,
                                       FileOptimizer &optimizer);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_ARTIFACTS_OPTIMIZERMODEL_H
