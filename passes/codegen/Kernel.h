//===- Kernel.h - Kernels as regions --------------------------------------===//
//
// A kernel is a region of nn ops over block arguments (the inputs) that ends in
// a yield (the outputs). A target generates its code (lib/Target/Target.h).
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PASSES_CODEGEN_KERNEL_H
#define SHALE_PASSES_CODEGEN_KERNEL_H

#include "dialects/nn/Ops/Cluster.h"
#include "lib/Target/Target.h"
#include "mlir/IR/BuiltinOps.h"

namespace shale {

/// Builds a cluster of `op`, and of `casts` of its results, in front of it. The results are those
/// of the op, then those of the casts. The ops keep their users.
nn::ClusterOp isolate(mlir::Operation *op, llvm::ArrayRef<mlir::Operation *> casts = {});

/// Puts each op with a dedicated kernel into an nn.cluster, so that every kernel of
/// the module is a region.
void isolateOwnKernels(mlir::ModuleOp module, const Target &target);

} // namespace shale

#endif // SHALE_PASSES_CODEGEN_KERNEL_H
