//===- Spaces.h - The memory in which each value is -----------------------===//
#ifndef SHALE_PASSES_MEMORY_SPACES_H
#define SHALE_PASSES_MEMORY_SPACES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace shale {

/// Whether a function's argument or result is state whose home is host memory.
bool isHostArgument(mlir::BlockArgument argument);
bool isHostResult(mlir::func::FuncOp function, unsigned result);

/// Whether a value is in both memories: a constant, a scalar that the runtime passes to the
/// function (a hyper-parameter, the seed, the step), or no tensor. Any other scalar is copied like
/// a tensor.
bool isInBothMemories(mlir::Value value);

/// Whether a value is in host memory: state whose home is host memory, results of
/// `mem.offload` and of ops that run on the host, and views of these.
bool isOnHost(mlir::Value value);

/// Whether an op runs on the host: an optimizer's update whose state is on the host,
/// a sum of micro-batches whose accumulator is on the host, or a reduction of elements
/// with an operand on the host.
bool runsOnHost(mlir::Operation *op);

} // namespace shale

#endif // SHALE_PASSES_MEMORY_SPACES_H
