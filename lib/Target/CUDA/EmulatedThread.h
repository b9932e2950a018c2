//===- EmulatedThread.h - Calls of the emulator ---------------------------===//
#ifndef SHALE_TARGET_CUDA_EMULATEDTHREAD_H
#define SHALE_TARGET_CUDA_EMULATEDTHREAD_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace shale::cuda {

/// Emits reads and calls of a thread's context, a ShaleThread (include/shale/Emulation.h).
class EmulatedThread {
public:
  /// The fields of a ShaleThread.
  enum Field { Thread, Block, Shared, Barrier, Shuffle, Access };

  EmulatedThread(mlir::OpBuilder &b, mlir::Location loc, mlir::Value context)
      : b(b), loc(loc), context(context) {}

  mlir::Type pointer() const { return mlir::LLVM::LLVMPointerType::get(b.getContext()); }
  mlir::Value i32(int64_t value) const;
  mlir::Value i64(int64_t value) const;
  mlir::Value field(Field which, mlir::Type type) const;
  /// Calls a function of the context, with the context as first argument.
  mlir::Value call(Field which, mlir::Type result, llvm::ArrayRef<mlir::Value> arguments) const;

  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Value context;
};

/// Replaces an nvvm.mma.sync by a call of a function of `module`, which is made if it is new. Its
/// shuffles have the sites from `site` on; sets that to the next one. Fails after an error.
mlir::LogicalResult emulateMatmul(mlir::NVVM::MmaOp op, mlir::ModuleOp module,
                                  const EmulatedThread &thread, int32_t &site);

} // namespace shale::cuda

#endif // SHALE_TARGET_CUDA_EMULATEDTHREAD_H
