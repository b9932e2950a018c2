//===- NextBuffers.h - Buffers that a traced step changes -----------------===//
#ifndef SHALE_FRONTEND_ONNX_NEXTBUFFERS_H
#define SHALE_FRONTEND_ONNX_NEXTBUFFERS_H

#include "lib/Frontend/ONNX/States.h"

namespace shale::onnx {

/// A buffer of the model, and the output of the graph that is its value after a step.
struct NextBuffer {
  std::string name, output;
};

/// Reads the buffers that the file's record lists: a line per buffer, with its name in the user's
/// module, a tab, and an output. Fails, with an error, if the list has another form, an unknown
/// output, or a name twice.
mlir::FailureOr<std::vector<NextBuffer>> readNextBuffers(ImportContext &context);

/// Makes the listed buffers states. Those that no node reads stay as they are in the file.
void markChanged(llvm::ArrayRef<NextBuffer> buffers, Parameters &parameters);

/// A buffer's state, and its value after a step.
struct NextValue {
  size_t index; // into the list of parameters
  mlir::Value value;
};

/// Returns the values of the buffers that are states. Fails, with an error, if one is not of its
/// buffer's type.
mlir::FailureOr<std::vector<NextValue>> nextValues(ImportContext &context, const Scope &graph,
                                                   const States &states,
                                                   llvm::ArrayRef<NextBuffer> buffers);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_NEXTBUFFERS_H
