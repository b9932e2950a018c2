//===- Artifacts.h - ONNX Runtime's training artifacts --------------------===//
//
// A folder that onnxruntime.training.artifacts writes: training_model.onnx, eval_model.onnx,
// optimizer_model.onnx and checkpoint. The forward pass is that of eval_model.onnx, the gradients
// are Shale's own, weights are those of the checkpoint by reference.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_ARTIFACTS_ARTIFACTS_H
#define SHALE_FRONTEND_ONNX_ARTIFACTS_ARTIFACTS_H

#include "lib/Frontend/ONNX/Training/FileTraining.h"

namespace shale::onnx {

/// The files of a folder beside the model of the forward pass.
struct Artifacts {
  std::unique_ptr<Model> training, optimizer;
  std::unique_ptr<llvm::MemoryBuffer> checkpoint;
};

/// Opens the files of a folder. Returns the model of the forward pass, to which `artifacts`
/// belong; null after filling `failure`.
std::unique_ptr<Model> openArtifacts(llvm::StringRef folder, Artifacts &artifacts,
                                     ToolError &failure);

/// Adds the checkpoint's parameters to the graph of `model` as initializers, and returns what the
/// artifacts say about training. Fails, with an error, if the files do not fit each other or
/// cannot be trained exactly.
mlir::FailureOr<FileTraining> readArtifacts(ImportContext &context, Model &model,
                                            const Artifacts &artifacts);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_ARTIFACTS_ARTIFACTS_H
