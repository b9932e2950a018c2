//===- CrashHandler.h - One line and an exit code for a crash -------------===//
#ifndef SHALE_SUPPORT_CRASHHANDLER_H
#define SHALE_SUPPORT_CRASHHANDLER_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace shale {

/// From now on a crash of this process (a signal such as SIGSEGV, an overflow of the main thread's
/// stack included) prints one line that names the tool, the file and the stage, removes the files
/// that were given to llvm::sys::RemoveFileOnSignal, and exits with SHALE_EXIT_INTERNAL. With
/// SHALE_BACKTRACE=1 in the environment, and under AddressSanitizer, crashes stay as they were.
/// `tool` must live as long as the process. Call once, after llvm::InitLLVM.
void installCrashHandler(const char *tool);

/// Names the work of the process while this object lives, for the line that a crash prints. Only
/// for the main thread.
class CrashStage {
public:
  /// `stage` completes "while ..": "parsing". Without a file, the one of the stage around it
  /// counts.
  explicit CrashStage(llvm::StringRef stage, llvm::StringRef file = {});
  ~CrashStage();
  CrashStage(const CrashStage &) = delete;
  CrashStage &operator=(const CrashStage &) = delete;

private:
  std::string stageBefore, fileBefore;
};

/// Sets the stage until the innermost CrashStage ends. May be called by any thread.
void setCrashStage(llvm::StringRef stage);

} // namespace shale

#endif // SHALE_SUPPORT_CRASHHANDLER_H
