//===- Link.h - Linking of object files to programs -----------------------===//
#ifndef SHALE_TARGET_LINK_H
#define SHALE_TARGET_LINK_H

#include "lib/Support/ToolError.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace shale {

struct LinkOptions {
  std::string compiler; ///< compiler driver for linking; empty: c++, g++ or clang++ of the PATH
  /// Folder of a package's linker, ld.lld, with what a compiler driver adds: start files and
  /// libgcc. The package's shared libraries are in the folder above. Empty, or without ld.lld:
  /// `compiler` links.
  std::string package;
  std::vector<std::string> runtime;   ///< paths of the runtime's archives (Target::getRuntime)
  std::vector<std::string> libraries; ///< further arguments, in order
  bool shared = false;                ///< whether to link a shared library instead of a program
  bool bundled = false; ///< whether the program searches bundleFolder() for libraries first
};

/// Stops the running linker, if any. For use in signal handlers.
void stopLinker();

/// Links object files and the runtime to a program at `output`. Does not use a shell. Returns false
/// with a message in `error` on failure.
bool linkProgram(llvm::ArrayRef<std::string> objects, llvm::StringRef output,
                 const LinkOptions &options, ToolError &error);

/// Returns the folder next to a program for its shared libraries: NAME.libs.
std::string bundleFolder(llvm::StringRef program);

/// Copies the shared libraries that `program` loads, except glibc's, to bundleFolder(). A program
/// linked with `bundled` finds them there even if both are moved together. Sets `count` and `bytes`
/// to the number and total size of the libraries. Returns false with a message in `error` on
/// failure.
bool bundleLibraries(llvm::StringRef program, int64_t &count, int64_t &bytes, std::string &error);

} // namespace shale

#endif // SHALE_TARGET_LINK_H
