//===- GpuCode.h - Machine code of GPU kernels ----------------------------===//
#ifndef SHALE_TARGET_CUDA_GPUCODE_H
#define SHALE_TARGET_CUDA_GPUCODE_H

#include "lib/Support/ToolError.h"
#include "lib/Target/CUDA/CUDA.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace shale::cuda {

/// Lowers a module of kernels to the LLVM and NVVM dialects: pointers as arguments, math functions
/// as polynomials, no contraction of matmuls and sums. Fails after an error.
mlir::LogicalResult lowerToNvvm(mlir::gpu::GPUModuleOp kernels);

/// Translates a lowered module to PTX for each architecture, in their order and in parallel. Fails
/// after an error on the module.
mlir::FailureOr<std::vector<std::string>> emitPtx(mlir::gpu::GPUModuleOp kernels,
                                                  llvm::ArrayRef<Architecture> architectures);

/// Assembles PTX of architectures, in their order and in parallel, to one fatbin by the CUDA
/// toolkit's ptxas and fatbinary. Returns false with a message in `error` on failure. `usage` gets
/// an entry per architecture and kernel, named as in the PTX.
bool assemble(llvm::ArrayRef<Architecture> architectures, llvm::ArrayRef<std::string> ptx,
              std::string &fatbin, std::vector<KernelUsage> &usage, ToolError &error);

/// A kernel that is compiled for the CPU.
struct HostKernel {
  std::string name; ///< of a ShaleThreadFunction (include/shale/Emulation.h)
  int32_t threads;  ///< per block
  int32_t buffers;  ///< arguments
  int64_t sharedBytes;
};

/// Lowers the kernels of `module` to functions of the host in the LLVM dialect, for emulation.
/// Fails after an error.
mlir::FailureOr<std::vector<HostKernel>> lowerToHost(mlir::ModuleOp module);

} // namespace shale::cuda

#endif // SHALE_TARGET_CUDA_GPUCODE_H
