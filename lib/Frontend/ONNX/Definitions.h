//===- Definitions.h - What a graph defines, and what of it is imported ---===//
#ifndef SHALE_FRONTEND_ONNX_DEFINITIONS_H
#define SHALE_FRONTEND_ONNX_DEFINITIONS_H

#include "lib/Frontend/ONNX/ImportContext.h"
#include "llvm/ADT/DenseMap.h"

namespace shale::onnx {

/// Calls of functions, and graphs in attributes, are nested at most this deep.
inline constexpr int kMaxCallDepth = 100;

/// Reads the versions of operator sets, by domain. Fails, with an error, if the file's version or
/// that of the standard operators is not supported.
mlir::FailureOr<llvm::StringMap<int64_t>> readOpsets(ImportContext &context);

/// Reads the definitions of the graph. Fails, with an error, if a name is missing or is defined
/// twice.
mlir::LogicalResult readDefinitions(ImportContext &context);

/// Finds the nodes of the graph that `roots` are computed from. Fails, with an error, if nodes
/// define a name twice.
mlir::LogicalResult findNeeded(ImportContext &context, llvm::ArrayRef<llvm::StringRef> roots);

/// Fails, with one error for all, if operators of the needed nodes have no handler.
mlir::LogicalResult checkSupported(ImportContext &context);

/// The ratio of a dropout of operand 0 of a MatMul, which the export left out.
using LostDropout = llvm::DenseMap<const NodeProto *, double>;

/// Finds the dropouts of attention that an export left out. Fails, with an error, if one cannot be
/// restored.
mlir::FailureOr<LostDropout> findLostDropout(ImportContext &context);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_DEFINITIONS_H
