//===- InputFile.h - Opens the files that the tools read ------------------===//
#ifndef SHALE_SUPPORT_INPUTFILE_H
#define SHALE_SUPPORT_INPUTFILE_H

#include "lib/Support/ToolError.h"
#include "llvm/Support/MemoryBuffer.h"
#include <memory>

namespace shale {

/// The most bytes of a file of IR, text or bytecode.
inline constexpr int64_t kMostIrBytes = int64_t(4) << 30;

/// Returns the content of a file, mapped into memory. Every file that a tool reads is opened here:
/// without waiting (a FIFO would block), and only if it is a regular file (a device may have no
/// end). If the file changes, so does the content. Returns null with a message that begins with the
/// path and an exit code in `error`: SHALE_EXIT_NO_INPUT if it cannot be opened, SHALE_EXIT_DATA if
/// it is not a regular file.
std::unique_ptr<llvm::MemoryBuffer> openInput(llvm::StringRef path, ToolError &error);

/// The same for an open file, which is closed, under the name `path`. The message does not begin
/// with it.
std::unique_ptr<llvm::MemoryBuffer> openedInput(int file, llvm::StringRef path, ToolError &error);

/// Returns the IR in a file, or in standard input if `path` is "-", followed by a null byte, after
/// checkParseLimits(). It is a copy, which later writes to the file do not change. At most
/// kMostIrBytes: more is an error with SHALE_EXIT_DATA.
std::unique_ptr<llvm::MemoryBuffer> openIr(llvm::StringRef path, ToolError &error);

} // namespace shale

#endif // SHALE_SUPPORT_INPUTFILE_H
