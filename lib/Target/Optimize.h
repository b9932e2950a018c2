//===- Optimize.h - Optimizes LLVM IR of kernels --------------------------===//
#ifndef SHALE_TARGET_OPTIMIZE_H
#define SHALE_TARGET_OPTIMIZE_H

#include "llvm/ADT/StringRef.h"

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace shale {

/// Runs LLVM's pipeline for -O3 on a module for `machine`, without its vectorizers: kernels come
/// with their vectors and with a fixed order of operations.
void optimizeModule(llvm::Module &module, llvm::TargetMachine &machine);

/// Runs a list of passes, valid in the form that `opt -passes` takes, on a module for `machine`.
void runPasses(llvm::Module &module, llvm::TargetMachine &machine, llvm::StringRef passes);

} // namespace shale

#endif // SHALE_TARGET_OPTIMIZE_H
