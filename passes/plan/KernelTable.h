//===- KernelTable.h - The kernels of a module ----------------------------===//
#ifndef SHALE_PASSES_PLAN_KERNELTABLE_H
#define SHALE_PASSES_PLAN_KERNELTABLE_H

#include "dialects/mem/Mem.h"
#include "dialects/nn/Ops/Epilogue.h"
#include "lib/Target/Target.h"
#include <map>

namespace shale {

/// Creates `rt.kernel`s at the end of a module; equal bodies share one kernel.
class KernelTable {
public:
  KernelTable(mlir::ModuleOp module, const Target &target)
      : target(target), module(module), builder(module.getContext()) {}

  const Target &target;

  struct Use {
    mlir::FlatSymbolRefAttr kernel;
    /// The tensors that the launch passes: the op's operands except the
    /// constants that the body computes itself.
    llvm::SmallVector<mlir::Value> inputs;
  };

  /// Returns the kernel of an `nn.cluster`'s body, or of any other op alone, on buffers in
  /// `memory`.
  Use add(mlir::Operation *op, mem::Memory memory);
  /// Returns the kernel from a matmul and the third operand to the results of the op.
  mlir::FlatSymbolRefAttr addEpilogue(nn::MatmulEpilogueOp op);
  /// Returns the kernel that converts a scalar to f32, the type of metrics.
  Use addCast(mlir::Value scalar);

private:
  /// Returns the kernel with this body, compiled for the processor of `memory`. A new one is named
  /// after `origin`, a module, and its ops.
  mlir::FlatSymbolRefAttr intern(mlir::Region &body, llvm::ArrayRef<int64_t> aliases,
                                 mem::Memory memory, llvm::StringRef origin, mlir::Location loc);

  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  std::multimap<uint64_t, rt::KernelOp> kernels;
};

} // namespace shale

#endif // SHALE_PASSES_PLAN_KERNELTABLE_H
