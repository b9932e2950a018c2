//===- Kernel.h - Kernels from clusters -----------------------------------===//
//
// A kernel is a region of nn ops over block arguments (the inputs) that ends in
// a yield (the outputs). generateKernel brings it to a row form in scf, vector,
// memref, arith and math; lowerKernels takes such functions to the LLVM dialect
// under the ABI of ShaleKernel (include/shale/Runtime.h):
// `args` are the inputs' buffers, then the outputs', dense and row-major.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PASSES_CODEGEN_KERNEL_H
#define SHALE_PASSES_CODEGEN_KERNEL_H

#include "dialects/nn/NN.h"
#include "mlir/IR/BuiltinOps.h"

namespace shale {

struct KernelOptions {
  /// f32 elements of one vector: 16 for AVX512, 8 for AVX2.
  int64_t lanes = 16;
};

/// What the caller of a kernel needs: shale_launch's rows and grain.
struct KernelInfo {
  int64_t rows = 0;
  int64_t grain = 1;
  /// Stack that one thread needs, in bytes.
  int64_t scratch = 0;
};

/// Appends func.func @name to `module`, which computes `body`. Fails after an error.
mlir::FailureOr<KernelInfo> generateKernel(mlir::ModuleOp module, llvm::StringRef name,
                                           mlir::Region &body, const KernelOptions &options);

/// Builds, before `op`, a cluster of this op alone; the op keeps its users.
nn::ClusterOp isolate(OwnKernel op);

/// Takes all functions that generateKernel appended to `module` (which holds
/// nothing else) to llvm.func @name(%args: !llvm.ptr, %begin: i64, %end: i64).
mlir::LogicalResult lowerKernels(mlir::ModuleOp module);

/// Puts each op with a kernel of its own into an nn.cluster, so that every
/// kernel of the module is a region.
void isolateOwnKernels(mlir::ModuleOp module);

/// Structural equality of kernel bodies: equal ones share one kernel.
bool equalKernels(mlir::Region &lhs, mlir::Region &rhs);

} // namespace shale

#endif // SHALE_PASSES_CODEGEN_KERNEL_H
