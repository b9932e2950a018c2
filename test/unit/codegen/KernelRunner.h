//===- KernelRunner.h - Runs functions of nn ops by generated kernels -----===//
#ifndef SHALE_TEST_UNIT_CODEGEN_KERNELRUNNER_H
#define SHALE_TEST_UNIT_CODEGEN_KERNELRUNNER_H

#include "dialects/rt/RT.h"
#include "lib/Interpreter/Interpreter.h"
#include "lib/Target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "test/emulation/Fibers.h"
#include <memory>
#include <string>
#include <vector>

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace shale::test {

struct RunOptions {
  bool singletons = false; ///< no fusion
  bool fuse = true;        ///< false: @f has clusters already
  /// The target. Kernels of cuda are emulated, in several orders of their threads, which must give
  /// the same bits.
  std::string target = "cpu:native";
  /// Removes each barrier in turn: the emulator must report a race, or the results differ.
  bool dropBarriers = true;
};

/// Parses `text`, whose function is @f; null after an error.
mlir::OwningOpRef<mlir::ModuleOp> parse(mlir::MLIRContext &context, const std::string &text);
void prepare(mlir::MLIRContext &context);

/// Random arguments of @f: floats around 0, integers in [-1, bound).
std::vector<interp::Tensor> randomArguments(mlir::ModuleOp module, unsigned seed, int64_t bound);

/// Makes a module with @f, which has the kernel as its only op.
mlir::OwningOpRef<mlir::ModuleOp> wrapKernel(rt::KernelOp kernel);

/// Random arguments of such an @f. Rates, scales and norms, which are single numbers, are positive.
std::vector<interp::Tensor> kernelArguments(mlir::ModuleOp module);

/// Runs @f in the interpreter, in f64.
std::vector<interp::Tensor> interpret(mlir::ModuleOp module,
                                      const std::vector<interp::Tensor> &arguments);

/// @f, decomposed, fused and compiled. The interpreter runs ops that are no kernels (matmuls).
class CompiledKernels {
public:
  CompiledKernels(mlir::ModuleOp module, const RunOptions &options);
  ~CompiledKernels();

  /// Runs @f. `chunk` is the number of rows per call of a kernel, rounded up to the grain; 0: all.
  std::vector<interp::Tensor> run(const std::vector<interp::Tensor> &arguments, int64_t chunk = 0);
  /// The number of kernels.
  int count() const;

private:
  struct Code;
  bool dropBarriers;
  std::unique_ptr<Code> code;
};

/// Compiles and runs @f once. Sets `kernels` to their number.
std::vector<interp::Tensor> runNative(mlir::ModuleOp module,
                                      const std::vector<interp::Tensor> &arguments,
                                      const RunOptions &options, int *kernels = nullptr);

/// The machine code of a module of kernels.
class Machine {
public:
  /// Compiles `kernels`, which are functions of the host, for a target that is the host.
  Machine(mlir::ModuleOp kernels, const Target &target);
  Machine(Machine &&);
  ~Machine();

  template <typename Function> Function find(const std::string &name) {
    return reinterpret_cast<Function>(lookup(name));
  }

private:
  void *lookup(const std::string &name);

  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace shale::test

#endif // SHALE_TEST_UNIT_CODEGEN_KERNELRUNNER_H
