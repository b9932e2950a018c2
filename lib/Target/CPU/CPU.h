//===- CPU.h - x86-64 CPUs ------------------------------------------------===//
#ifndef SHALE_TARGET_CPU_CPU_H
#define SHALE_TARGET_CPU_CPU_H

#include "lib/Target/Target.h"

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace shale {
namespace cpu {
/// Lowers a module of func, scf, vector, memref, arith and math to the LLVM dialect, with pointers
/// for memrefs and polynomials for math functions.
mlir::LogicalResult lowerFunctions(mlir::ModuleOp module);
} // namespace cpu

/// Kernels are vector loops whose rows are split over threads. Matmuls use oneDNN,
/// collectives use Gloo.
class CpuTarget final : public Target {
public:
  /// `level` is x86-64-v3 or x86-64-v4; `lanes` is the number of f32 elements per vector.
  CpuTarget(llvm::StringRef level, int64_t lanes) : Target(("cpu:" + level).str()), lanes(lanes) {}

  bool isLibraryCall(mlir::Operation *op) const override;
  bool hasOwnKernel(mlir::Operation *op) const override;
  bool storesCasts(mlir::Operation *op) const override;
  bool takes16BitFloats(mlir::Operation *op) const override {
    return isLibraryCall(op) || hasOwnKernel(op);
  }
  bool hasFast16BitFloats() const override { return false; }
  bool has8BitMatmuls() const override { return true; }
  mlir::FailureOr<KernelInfo> generateKernel(mlir::ModuleOp module, llvm::StringRef name,
                                             mlir::Region &body) const override;
  mlir::FailureOr<std::vector<KernelUsage>> lowerKernels(mlir::ModuleOp module) const override;
  mlir::LogicalResult emitObject(mlir::ModuleOp module,
                                 llvm::SmallVectorImpl<char> &object) const override;
  std::vector<std::string> getLibraries() const override {
    return {"-lgloo", "-l:libsodium.a", "-ldnnl", "-lgomp", "-lpthread"};
  }
  const Rates &getRates() const override;
  std::vector<FixedCost> getFixedCosts(mlir::ModuleOp planned, int64_t ranks,
                                       int64_t threads) const override;

private:
  int64_t lanes;
};

/// Registers cpu:native, cpu:x86-64-v3 and cpu:x86-64-v4. native is the highest level that this CPU
/// supports.
void registerCpuTarget();
/// Attaches the dedicated CPU kernels to ops when their dialect is loaded.
void registerCpuKernels(mlir::DialectRegistry &registry);

} // namespace shale

#endif // SHALE_TARGET_CPU_CPU_H
