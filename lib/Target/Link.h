//===- Link.h - Object files to programs ----------------------------------===//
#ifndef SHALE_TARGET_LINK_H
#define SHALE_TARGET_LINK_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace shale {

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

#endif // SHALE_TARGET_LINK_H
