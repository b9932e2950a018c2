//===- Threads.h - Building blocks of dedicated GPU kernels ---------------===//
#ifndef SHALE_TARGET_CUDA_KERNELS_THREADS_H
#define SHALE_TARGET_CUDA_KERNELS_THREADS_H

#include "lib/Codegen/Arithmetic.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace shale::cuda {

/// Emits memory and control flow of one thread.
class Threads : public Arithmetic {
public:
  Threads(mlir::OpBuilder &b, mlir::gpu::GPUFuncOp function)
      : Arithmetic(b, function.getLoc()), function(function) {}

  mlir::Value block();
  mlir::Value thread();
  mlir::Value load(mlir::Value memref, mlir::Value at);
  void store(mlir::Value value, mlir::Value memref, mlir::Value at);
  /// Loads an integer as an index.
  mlir::Value loadIndex(mlir::Value memref, mlir::Value at);
  void barrier();

  void when(mlir::Value condition, llvm::function_ref<void()> body);
  void forRange(mlir::Value lower, mlir::Value upper, mlir::Value step,
                llvm::function_ref<void(mlir::Value)> body);
  /// A loop as forRange emits. `body` maps the values of one iteration, at first `initial`, to
  /// those of the next; returns the final values.
  using Values = llvm::SmallVector<mlir::Value>;
  Values fold(mlir::Value lower, mlir::Value upper, mlir::Value step, const Values &initial,
              llvm::function_ref<Values(mlir::Value, mlir::ValueRange)> body);

  /// Returns memory that the block's threads share. `alignment`, in bytes; 0: that of an element.
  mlir::Value shared(int64_t elements, mlir::Type element, int64_t alignment = 0);
  /// Returns constant data of the kernel. `what` tells it from the kernel's other constants.
  mlir::Value constant(llvm::StringRef what, mlir::DenseElementsAttr values);

private:
  mlir::gpu::GPUFuncOp function;
};

} // namespace shale::cuda

#endif // SHALE_TARGET_CUDA_KERNELS_THREADS_H
