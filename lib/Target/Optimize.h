//===- Optimize.h - Optimizes LLVM IR of kernels --------------------------===//
#ifndef SHALE_TARGET_OPTIMIZE_H
#define SHALE_TARGET_OPTIMIZE_H

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace shale {

/// Runs LLVM's pipeline for -O3 on a module for `machine`, without its vectorizers: kernels come
/// with their vectors and with a fixed order of operations.
void optimizeModule(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace shale

#endif // SHALE_TARGET_OPTIMIZE_H
