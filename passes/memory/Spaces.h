//===- Spaces.h - In which memory each value is ---------------------------===//
#ifndef SHALE_PASSES_MEMORY_SPACES_H
#define SHALE_PASSES_MEMORY_SPACES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace shale {

/// Whether a function's argument or result is state whose home is host memory.
bool isHostArgument(mlir::BlockArgument argument);
bool isHostResult(mlir::func::FuncOp function, unsigned result);

/// Numbers are in both memories.
bool isNumber(mlir::Value value);

/// Whether a value is in host memory: state at home there, what `mem.offload`
/// and ops that run there make, and views of these.
bool isOnHost(mlir::Value value);

/// Whether an op runs where its operands are: an optimizer's update where its
/// state is on the host, a sum of micro-batches where it adds up, a reduction of
/// elements where one of its operands is.
bool runsOnHost(mlir::Operation *op);

} // namespace shale

#endif // SHALE_PASSES_MEMORY_SPACES_H
