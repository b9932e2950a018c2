//===- TemporaryFile.h - Files for tools ----------------------------------===//
#ifndef SHALE_TARGET_CUDA_TEMPORARYFILE_H
#define SHALE_TARGET_CUDA_TEMPORARYFILE_H

#include "lib/Support/ToolError.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

namespace shale::cuda {

/// A temporary file that is removed on destruction and on a signal.
class TemporaryFile {
public:
  TemporaryFile(llvm::StringRef suffix, ToolError &error) {
    if (std::error_code code = llvm::sys::fs::createTemporaryFile("shale", suffix, path)) {
      error = {"cannot make a temporary file: " + code.message(), SHALE_EXIT_IO};
      path.clear();
      return;
    }
    remover.setFile(path);
  }
  llvm::StringRef name() const { return path; }
  explicit operator bool() const { return !path.empty(); }

  bool write(llvm::StringRef text, ToolError &error) const {
    std::error_code code;
    llvm::raw_fd_ostream out(path, code);
    if (!code) {
      out << text;
      out.close();
      code = out.error();
      out.clear_error();
    }
    if (code)
      error = {"cannot write " + path.str().str() + ": " + code.message(), SHALE_EXIT_IO};
    return !code;
  }
  bool read(std::string &text, ToolError &error) const {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer) {
      error = {"cannot read " + path.str().str() + ": " + buffer.getError().message(),
               SHALE_EXIT_IO};
      return false;
    }
    text = (*buffer)->getBuffer().str();
    return true;
  }

private:
  llvm::SmallString<128> path;
  llvm::FileRemover remover;
};

} // namespace shale::cuda

#endif // SHALE_TARGET_CUDA_TEMPORARYFILE_H
