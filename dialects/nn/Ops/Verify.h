//===- Verify.h - Checks that ops of several families share ---------------===//
#ifndef SHALE_NN_OPS_VERIFY_H
#define SHALE_NN_OPS_VERIFY_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace shale::nn {

/// Fails unless `op`'s result 0 has the given element type and shape.
mlir::LogicalResult verifyResult(mlir::Operation *op, mlir::Type element,
                                 llvm::ArrayRef<int64_t> shape);

/// Fails unless `dim` is a dimension of a tensor of rank `rank`.
mlir::LogicalResult verifyDim(mlir::Operation *op, int64_t dim, int64_t rank);

} // namespace shale::nn

#endif // SHALE_NN_OPS_VERIFY_H
