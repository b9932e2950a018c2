//===- Bodies.h - The functions that are scheduled ------------------------===//
#ifndef SHALE_PASSES_SCHEDULE_BODIES_H
#define SHALE_PASSES_SCHEDULE_BODIES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace shale {

/// Runs `body` on the block of each function. Emits an error and fails if a function has several
/// blocks.
mlir::LogicalResult forEachBody(mlir::ModuleOp module,
                                llvm::function_ref<void(mlir::Block &)> body);

/// Emits an error and fails if `prefetch` is negative or `mostInFlight` is less than 1.
mlir::LogicalResult checkGatherOptions(mlir::ModuleOp module, int64_t prefetch,
                                       int64_t mostInFlight);

} // namespace shale

#endif // SHALE_PASSES_SCHEDULE_BODIES_H
