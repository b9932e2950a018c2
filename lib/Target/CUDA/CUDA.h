//===- CUDA.h - NVIDIA GPUs -----------------------------------------------===//
#ifndef SHALE_TARGET_CUDA_CUDA_H
#define SHALE_TARGET_CUDA_CUDA_H

#include "lib/Target/Target.h"
#include <memory>

namespace mlir::gpu {
class GPUModuleOp;
} // namespace mlir::gpu

namespace shale {
namespace cuda {

/// The gpu.module that holds the generated kernels until they are lowered.
inline constexpr llvm::StringLiteral kKernelModule = "shale_kernels";
/// A unit attribute of kernels whose indices fit in 32 bits, with those of all values they compute.
inline constexpr llvm::StringLiteral kNarrowIndex = "shale.narrow_index";

/// A GPU architecture as ptxas spells it, "sm_90a", and the PTX version that it needs.
struct Architecture {
  llvm::StringLiteral name;
  llvm::StringLiteral ptx;     ///< empty for `emulated`: the code is a shared library of the host
  int capability;              ///< 90: compute capability 9.0; that of the stand-ins for `emulated`
  llvm::StringLiteral machine; ///< its rates unless --machine is given; empty: those of the host

  bool isEmulated() const { return ptx.empty(); }
};

} // namespace cuda

/// Kernels are gpu functions, compiled to PTX by LLVM and to machine code by ptxas. Matmuls
/// use cuBLASLt.
class CudaTarget final : public Target {
public:
  /// `names` are those of `architectures`, with commas between. The host's code is for x86-64-v3.
  CudaTarget(llvm::StringRef names, std::vector<cuda::Architecture> architectures);

  const Target &getHost() const override { return *host; }
  bool runsAhead() const override { return true; }

  bool isLibraryCall(mlir::Operation *op) const override;
  bool hasOwnKernel(mlir::Operation *op) const override;
  bool storesCasts(mlir::Operation *op) const override;
  bool takes16BitFloats(mlir::Operation *op) const override {
    return isLibraryCall(op) || hasOwnKernel(op);
  }
  bool hasFast16BitFloats() const override { return true; }
  bool hasTf32() const override { return true; }
  bool hasFastMath() const override { return true; }
  bool joinsMatmuls(mlir::Type element) const override;
  bool has8BitMatmuls() const override;
  bool storesTransposes() const override { return true; }
  bool storesParts(int64_t parts, int64_t part) const override;
  int64_t paddedSize(int64_t size, mlir::Type element) const override;
  bool alignsSlices() const override { return true; }
  int64_t lossChunkRows() const override { return 4096; }
  int64_t mostReceiveScratch(mlir::Type element) const override;
  int64_t reductionRounds(mlir::Type element, int64_t slice, int64_t ranks) const override;
  bool exchangesBucketsAtOnce(mlir::Type element) const override;
  int64_t workspaceBytes(mlir::Operation *op) const override;
  bool sortsLookups(int64_t rows, int64_t indices) const override;
  int64_t reductionParts(int64_t results, int64_t each, bool trailing) const override;
  int64_t columnSumParts(int64_t rows, int64_t columns, int64_t sums) const override;
  mlir::FailureOr<KernelInfo> generateKernel(mlir::ModuleOp module, llvm::StringRef name,
                                             mlir::Region &body) const override;
  mlir::FailureOr<std::vector<KernelUsage>> lowerKernels(mlir::ModuleOp module) const override;
  mlir::LogicalResult emitObject(mlir::ModuleOp module,
                                 llvm::SmallVectorImpl<char> &object) const override {
    return host->emitObject(module, object);
  }
  std::vector<std::string> getRuntime() const override {
    return {"libshale_cuda_rt.a", "libshale_rt.a"};
  }
  std::vector<std::string> getLibraries() const override {
    return {"-lgloo", "-l:libsodium.a", "-lgomp", "-lpthread", "-ldl"};
  }
  bool hasStreamsPerAxis() const override { return true; }
  const Rates &getRates() const override;
  std::vector<FixedCost> getFixedCosts(mlir::ModuleOp planned, int64_t ranks,
                                       int64_t threads) const override;

private:
  /// Compiles kernels for the architectures. `usage` gets what each takes, named as in the code.
  /// Fails after an error.
  mlir::FailureOr<std::string> compile(mlir::gpu::GPUModuleOp kernels,
                                       std::vector<KernelUsage> &usage) const;
  /// Compiles kernels to a shared library of the host, for the emulator (test/emulation).
  mlir::FailureOr<std::string> compileEmulated(mlir::gpu::GPUModuleOp kernels) const;

  std::vector<cuda::Architecture> architectures;
  std::unique_ptr<const Target> host;
};

/// Registers cuda:sm_80, cuda:sm_90a, cuda:sm_100a; a list ("cuda:sm_80,sm_90a") compiles for each.
/// The code of cuda:emulated runs on a CPU.
void registerCudaTarget();
/// Loads the dialects of GPU kernels and attaches the dedicated kernels to ops when their dialect
/// is loaded.
void registerCudaKernels(mlir::DialectRegistry &registry);

} // namespace shale

#endif // SHALE_TARGET_CUDA_CUDA_H
