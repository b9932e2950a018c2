//===- LabelBinding.h - What a program's inputs are bound to --------------===//
#ifndef SHALE_FRONTEND_ONNX_LABELBINDING_H
#define SHALE_FRONTEND_ONNX_LABELBINDING_H

#include "lib/Frontend/ONNX/Inputs.h"
#include "lib/Frontend/ONNX/Losses.h"

namespace shale::onnx {

/// The inputs with their bindings, and why labels are bound as they are.
struct LabelBinding {
  Inputs inputs;
  std::string note;
};

/// Binds inputs and labels to what the data have. `labeled`: the parts of the loss that have
/// labels. Fails, with an error, if a flag names no input, if the graph does not show which token a
/// label is, or if an input counts more positions than the model has.
mlir::FailureOr<LabelBinding> bindInputs(ImportContext &context, const States &states,
                                         llvm::ArrayRef<LossParts> labeled, Inputs inputs);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_LABELBINDING_H
