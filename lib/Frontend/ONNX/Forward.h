//===- Forward.h - The forward function and the module's attributes -------===//
#ifndef SHALE_FRONTEND_ONNX_FORWARD_H
#define SHALE_FRONTEND_ONNX_FORWARD_H

#include "lib/Frontend/ONNX/Gradients.h"
#include "lib/Frontend/ONNX/Inputs.h"
#include "lib/Frontend/ONNX/NextBuffers.h"

namespace shale::onnx {

/// Moves the body into @forward, with the roles of its arguments and results.
void buildForward(ImportContext &context, const Inputs &inputs, const States &states,
                  llvm::ArrayRef<Gradient> gradients, llvm::ArrayRef<NextValue> next,
                  mlir::TypeRange results);

/// Records in the module the path of the file, the nodes that compute the graph's outputs, the
/// sizes of inputs, and the classes of module scopes.
void describeModule(ImportContext &context, const Inputs &inputs,
                    const llvm::StringMap<std::string> &classes);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_FORWARD_H
