//===- Stages.h - The stages of an import ---------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_STAGES_H
#define SHALE_FRONTEND_ONNX_STAGES_H

#include "lib/Frontend/ONNX/Inputs/Inputs.h"
#include "lib/Frontend/ONNX/Loss/Losses.h"

namespace shale::onnx {

/// Reads the versions of operator sets, by domain. Fails, with an error, if the file's version or
/// that of the standard operators is not supported.
mlir::FailureOr<llvm::StringMap<int64_t>> readOpsets(ImportContext &context);

/// Reads the definitions of the graph. Fails, with an error, if a name is missing or is defined
/// twice.
mlir::LogicalResult readDefinitions(ImportContext &context);

/// Finds the nodes of the graph that `roots` are computed from. Fails, with an error, if nodes
/// define a name twice.
mlir::LogicalResult findNeeded(ImportContext &context, llvm::ArrayRef<llvm::StringRef> roots);

/// Fails, with an error, if a flag names an operation that the file does not have, or, with one
/// error for all, if operators of the needed nodes have no handler.
mlir::LogicalResult checkSupported(ImportContext &context);

/// Finds the dropouts of attention that an export left out. Fails, with an error, if one cannot be
/// restored.
mlir::FailureOr<LostDropout> findLostDropout(ImportContext &context);

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
