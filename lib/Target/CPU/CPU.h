//===- CPU.h - Object code and programs for CPUs --------------------------===//
#ifndef SHALE_TARGET_CPU_CPU_H
#define SHALE_TARGET_CPU_CPU_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace shale {

/// A CPU as `--target cpu:NAME` names it.
struct CpuTarget {
  std::string name;  ///< x86-64-v3 or x86-64-v4: what the program checks at start
  int64_t lanes = 8; ///< f32 elements of one vector
};

/// `native`, `x86-64-v3` or `x86-64-v4`; native is the best of these that this
/// CPU has. Fails with a message to `error`.
bool parseCpuTarget(llvm::StringRef name, CpuTarget &target, std::string &error);

/// Compiles `module` (LLVM dialect) to the bytes of an object file. Fails after
/// an error on it.
mlir::LogicalResult emitObject(mlir::ModuleOp module, const CpuTarget &target, llvm::SmallVectorImpl<char> &object);

struct LinkOptions {
  std::string compiler;              ///< driver that links; empty: c++ of the PATH
  std::string runtime;               ///< libshale_rt.a
  std::vector<std::string> libraries; ///< further arguments, in order
  bool bundled = false;               ///< libraries are looked for in bundleFolder() first
};

/// Stops a linker that runs; for handlers of signals.
void stopLinker();

/// Links object files and the runtime to a program at `output`. Runs no shell.
bool linkProgram(llvm::ArrayRef<std::string> objects, llvm::StringRef output, const LinkOptions &options,
                 std::string &error);

/// The folder beside a program for its shared libraries: NAME.libs.
std::string bundleFolder(llvm::StringRef program);

/// Copies the shared libraries that `program` loads, but glibc's, to bundleFolder(), where a program that was linked for it
/// finds them wherever both are moved. Says how many there are, and their bytes.
bool bundleLibraries(llvm::StringRef program, int64_t &count, int64_t &bytes, std::string &error);

} // namespace shale

#endif // SHALE_TARGET_CPU_CPU_H
