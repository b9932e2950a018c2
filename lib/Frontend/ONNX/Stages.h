//===- Stages.h - The last stages of an import ----------------------------===//
#ifndef SHALE_FRONTEND_ONNX_STAGES_H
#define SHALE_FRONTEND_ONNX_STAGES_H

#include "lib/Frontend/ONNX/Inputs.h"
#include "lib/Frontend/ONNX/Loss/Losses.h"
#include "lib/Frontend/ONNX/States.h"
#include "mlir/IR/BuiltinOps.h"

namespace shale::onnx {

/// Binds inputs and labels to what the data have. Returns why labels are bound as they are; empty
/// if there are none. `labeled`: the parts of the loss that have labels. Fails, with an error, if a
/// flag names no input, if the graph does not show which token a label is, or if an input counts
/// more positions than the model has.
mlir::FailureOr<std::string> bindInputs(ImportContext &context, const States &states,
                                        llvm::ArrayRef<LossParts> labeled, Inputs &inputs);

/// Converts bf16 and f16 values to f32: a flag, not the file, chooses the types in
/// which a step computes. The module attribute `nn.file_type` records the file's
/// 16-bit float type if most of the model has it. Initial values keep their type
/// in the file.
void widen16BitFloats(mlir::ModuleOp module);

/// Fails, with an error, if a gradient would flow where PyTorch stops it. `roots`: the names that
/// the loss is computed from.
mlir::LogicalResult checkStops(ImportContext &context, const States &states,
                               llvm::ArrayRef<llvm::StringRef> roots);

/// Marks parameters that no gradient of the loss reaches (a mask, a table) as not trained, with a
/// remark.
void freezeUnreached(ImportContext &context, const States &states, mlir::Value loss);

/// Fails, with an error, if the loss depends on a buffer that the module changes in its forward
/// pass, other than by a running statistic: the file has only its first value. `roots`: the names
/// that the loss is computed from.
mlir::LogicalResult checkChangedBuffers(ImportContext &context, const States &states,
                                        llvm::ArrayRef<llvm::StringRef> roots);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_STAGES_H
