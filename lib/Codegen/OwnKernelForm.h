//===- OwnKernelForm.h - Bodies of dedicated kernels ----------------------===//
#ifndef SHALE_CODEGEN_OWNKERNELFORM_H
#define SHALE_CODEGEN_OWNKERNELFORM_H

#include "dialects/interfaces/Interfaces.h"
#include "mlir/IR/Region.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace shale {

/// A cast of a result that a dedicated kernel stores beside the result itself.
struct StoredCast {
  unsigned result;    ///< of the op, an f32
  mlir::Type element; ///< a 16-bit float
  mlir::Value memref; ///< where it is stored, as many elements as the result has
};

/// A region with one op whose results are all yielded, in order, and after them casts of its
/// results from f32 to a 16-bit float.
struct OwnKernelForm {
  mlir::Operation *op = nullptr; ///< null: the region has another form
  llvm::SmallVector<StoredCast, 1> casts;
};

/// Returns the form of a region of nn ops that ends in a yield. The casts have no memrefs yet.
OwnKernelForm findOwnKernelForm(mlir::Region &body);

/// Fails after an error unless the floats of the parameter, the gradient and the state are f32 or
/// have 16 bits: kernels of updates compute in f32.
llvm::LogicalResult checkUpdateFloats(OptimizerUpdateOpInterface update);

/// Whether `user` is a cast that a dedicated kernel may store beside what it casts.
bool isStoredCast(mlir::Operation *user);

} // namespace shale

#endif // SHALE_CODEGEN_OWNKERNELFORM_H
