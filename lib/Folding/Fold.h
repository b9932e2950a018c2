//===- Fold.h - Computes an op on constants -------------------------------===//
#ifndef SHALE_FOLDING_FOLD_H
#define SHALE_FOLDING_FOLD_H

#include "lib/Folding/TypedBuffer.h"
#include "mlir/IR/Operation.h"

namespace shale::folding {

/// Returns the result of a valid op on constants of its operands' types. Null without a diagnostic
/// if the op has no evaluator, has several results or a region, if an operand or the result is not
/// a static tensor of a type that is folded, if the value is not defined (an index out of range),
/// or if it does not fit into memory.
mlir::DenseElementsAttr fold(mlir::Operation *op, llvm::ArrayRef<TypedBuffer> operands);
mlir::DenseElementsAttr fold(mlir::Operation *op, llvm::ArrayRef<mlir::DenseElementsAttr> operands);

} // namespace shale::folding

#endif // SHALE_FOLDING_FOLD_H
