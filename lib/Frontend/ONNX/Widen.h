//===- Widen.h - Computes 16-bit floats in 32 bits ------------------------===//
#ifndef SHALE_FRONTEND_ONNX_WIDEN_H
#define SHALE_FRONTEND_ONNX_WIDEN_H

#include "mlir/IR/BuiltinOps.h"

namespace shale::onnx {

/// Converts bf16 and f16 values to f32: a flag, not the file, chooses the types in
/// which a step computes. The module attribute `nn.file_type` records the file's
/// 16-bit float type if most of the model has it. Initial values keep their type
/// in the file.
void widen16BitFloats(mlir::ModuleOp module);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_WIDEN_H
