//===- Lost.h - Arguments that PyTorch's exporters leave out --------------===//
#ifndef SHALE_FRONTEND_ONNX_LOST_H
#define SHALE_FRONTEND_ONNX_LOST_H

#include "lib/Frontend/ONNX/ImportContext.h"
#include "llvm/ADT/DenseMap.h"

namespace shale::onnx {

/// The ratio of a dropout of operand 0 of a MatMul, which the export left out.
using LostDropout = llvm::DenseMap<const NodeProto *, double>;

/// Finds the dropouts of attention that an export left out. Fails, with an error, if one cannot be
/// restored.
mlir::FailureOr<LostDropout> findLostDropout(ImportContext &context);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_LOST_H
