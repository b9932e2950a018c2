//===- CUDA.h - NVIDIA GPUs -----------------------------------------------===//
#ifndef SHALE_TARGET_CUDA_CUDA_H
#define SHALE_TARGET_CUDA_CUDA_H

#include "lib/Target/Target.h"

namespace shale {
namespace cuda {

/// The gpu.module that holds the generated kernels until they are lowered.
inline constexpr llvm::StringLiteral kKernelModule = "shale_kernels";

/// The constant that holds the machine code of all kernels.
inline constexpr llvm::StringLiteral kDeviceCode = "shale_device_code";

/// A GPU architecture as ptxas spells it, "sm_90a", and the PTX version that it needs.
struct Architecture {
  llvm::StringLiteral name;
  llvm::StringLiteral ptx;
};

} // namespace cuda

/// Kernels are gpu functions, compiled to PTX by LLVM and to machine code by ptxas. There is no
/// runtime yet: emitObject fails.
class CudaTarget final : public Target {
public:
  CudaTarget(llvm::StringRef names, std::vector<cuda::Architecture> architectures)
      : Target(("cuda:" + names).str()), architectures(std::move(architectures)) {}

  bool isLibraryCall(mlir::Operation *op) const override;
  bool hasOwnKernel(mlir::Operation *op) const override;
  bool takes16BitFloats(mlir::Operation *op) const override {
    return isLibraryCall(op) || hasOwnKernel(op);
  }
  bool hasFast16BitFloats() const override { return true; }
  mlir::FailureOr<KernelInfo> generateKernel(mlir::ModuleOp module, llvm::StringRef name,
                                             mlir::Region &body) const override;
  mlir::LogicalResult lowerKernels(mlir::ModuleOp module) const override;
  mlir::LogicalResult emitObject(mlir::ModuleOp module,
                                 llvm::SmallVectorImpl<char> &object) const override;
  std::vector<std::string> getLibraries() const override { return {}; }
  std::vector<FixedCost> getFixedCosts(mlir::ModuleOp, int64_t, int64_t) const override {
    return {};
  }

private:
  std::vector<cuda::Architecture> architectures;
};

/// Registers cuda:sm_80, cuda:sm_90a, cuda:sm_100a; a list ("cuda:sm_80,sm_90a") compiles for each.
void registerCudaTarget();
/// Loads the dialects of GPU kernels and attaches the dedicated kernels to ops when their dialect
/// is loaded.
void registerCudaKernels(mlir::DialectRegistry &registry);

} // namespace shale

#endif // SHALE_TARGET_CUDA_CUDA_H
