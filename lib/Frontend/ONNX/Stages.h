//===- Stages.h - The last stages of an import ----------------------------===//
#ifndef SHALE_FRONTEND_ONNX_STAGES_H
#define SHALE_FRONTEND_ONNX_STAGES_H

#include "lib/Frontend/ONNX/Gradients.h"
#include "lib/Frontend/ONNX/Inputs.h"
#include "lib/Frontend/ONNX/Losses.h"
#include "lib/Frontend/ONNX/States.h"
#include "mlir/IR/BuiltinOps.h"

namespace shale::onnx {

/// Moves the body into @forward, with the roles of its arguments and results.
void buildForward(ImportContext &context, const Inputs &inputs, const States &states,
                  llvm::ArrayRef<Gradient> gradients, llvm::ArrayRef<NextValue> next,
                  mlir::TypeRange results);

/// Records in the module the path of the file, the nodes that compute the graph's outputs, the
/// sizes of inputs, and the classes of module scopes.
void describeModule(ImportContext &context, const Inputs &inputs,
                    const llvm::StringMap<std::string> &classes);

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

/// Converts bf16 and f16 values to f32: a flag, not the file, chooses the types in
/// which a step computes. The module attribute `nn.file_type` records the file's
/// 16-bit float type if most of the model has it. Initial values keep their type
/// in the file.
void widen16BitFloats(mlir::ModuleOp module);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_STAGES_H
