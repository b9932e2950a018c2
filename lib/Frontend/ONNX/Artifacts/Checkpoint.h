//===- Checkpoint.h - ONNX Runtime's training checkpoint ------------------===//
#ifndef SHALE_FRONTEND_ONNX_ARTIFACTS_CHECKPOINT_H
#define SHALE_FRONTEND_ONNX_ARTIFACTS_CHECKPOINT_H

#include "llvm/Support/Error.h"

namespace shale::onnx {

/// A tensor of a checkpoint: its values are `length` bytes at `offset` of the checkpoint, or of the
/// file of external data beside it. The name is a part of the checkpoint's bytes; that of a moment
/// is its parameter's.
struct CheckpointTensor {
  llvm::StringRef name;
  std::vector<int64_t> dims;
  int32_t dataType = 0; // ONNX's number
  bool isExternal = false;
  int64_t offset = 0;
  int64_t length = -1; // of external data: not known
};

/// The state of an optimizer.
struct CheckpointGroup {
  int64_t step = 0;
  float learningRate = 0;
  std::vector<CheckpointTensor> moments;
};

struct Checkpoint {
  std::vector<CheckpointTensor> trained, frozen;
  std::vector<CheckpointGroup> groups;
};

/// Reads a checkpoint of version 2 (ONNX Runtime 1.17 to 1.19). Fails if it is malformed, of
/// another version, or has names without values.
llvm::Expected<Checkpoint> readCheckpoint(llvm::StringRef bytes);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_ARTIFACTS_CHECKPOINT_H
