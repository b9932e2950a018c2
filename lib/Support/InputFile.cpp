//===- InputFile.cpp - Opens the files that the tools read ----------------===//
#include "lib/Support/InputFile.h"
#include "lib/Support/ParseLimits.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace shale;
using llvm::MemoryBuffer;
using llvm::StringRef;
using llvm::Twine;

static std::unique_ptr<MemoryBuffer> fail(ToolError &error, const Twine &what, int exitCode) {
  error = {what.str(), exitCode};
  return nullptr;
}

/// Puts the path before the message of a failure.
static std::unique_ptr<MemoryBuffer> failOf(StringRef path, ToolError &error) {
  error.message = (path + ": " + error.message).str();
  return nullptr;
}

/// Names the kind of a file that is not regular.
static const char *kindOf(mode_t mode) {
  return S_ISDIR(mode)    ? "a folder"
         : S_ISFIFO(mode) ? "a pipe"
         : S_ISSOCK(mode) ? "a socket"
                          : "a device";
}

/// Opens a file without waiting: otherwise a FIFO waits for a writer. Returns -1 after an error.
static int openAtOnce(StringRef path, ToolError &error) {
  int file = open(path.str().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0)
    fail(error, strerror(errno), SHALE_EXIT_NO_INPUT);
  return file;
}

/// Sets the size of a regular file. Closes any other, and returns false after an error.
static bool isRegular(int file, int64_t &size, ToolError &error) {
  struct stat status = {};
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
    size = status.st_size;
    return true;
  }
  fail(error, Twine("is not a file but ") + kindOf(status.st_mode), SHALE_EXIT_DATA);
  close(file);
  return false;
}

std::unique_ptr<MemoryBuffer> shale::openedInput(int file, StringRef path, ToolError &error) {
  int64_t size;
  if (!isRegular(file, size, error))
    return nullptr;
  auto buffer = MemoryBuffer::getOpenFile(llvm::sys::fs::convertFDToNativeFile(file), path, size,
                                          /*RequiresNullTerminator=*/false);
  close(file);
  if (!buffer)
    return fail(error, buffer.getError().message(), SHALE_EXIT_NO_INPUT);
  return std::move(*buffer);
}

std::unique_ptr<MemoryBuffer> shale::openInput(StringRef path, ToolError &error) {
  int file = openAtOnce(path, error);
  std::unique_ptr<MemoryBuffer> buffer;
  if (file >= 0)
    buffer = openedInput(file, path, error);
  return buffer ? std::move(buffer) : failOf(path, error);
}

/// MLIR prints the line of an error and a line of as many spaces, one character and one system call
/// at a time: a minute for 20 MB. Buffers standard error if there is such a line.
static void expectLongLines(StringRef text) {
  constexpr size_t kLong = 1 << 16;
  while (!text.empty()) {
    auto [line, rest] = text.split('\n');
    if (line.size() > kLong)
      return llvm::errs().SetBuffered();
    text = rest;
  }
}

std::unique_ptr<MemoryBuffer> shale::openIr(StringRef path, ToolError &error) {
  bool isInput = path == "-";
  StringRef name = isInput ? "<stdin>" : path;
  int64_t size = 1 << 16;
  int file = isInput ? STDIN_FILENO : openAtOnce(path, error);
  if (file < 0 || (!isInput && !isRegular(file, size, error)))
    return failOf(name, error);
  // Read to its end, but never more than the limit: a file may grow, and standard input may be a
  // device.
  llvm::SmallVector<char, 0> bytes;
  bool ended = false, tooLarge = size > kMostIrBytes;
  std::error_code wrong;
  while (!ended && !tooLarge && !wrong) {
    size_t before = bytes.size(), more = std::max<int64_t>(size - int64_t(before), 1 << 20) + 1;
    bytes.resize_for_overwrite(before + more);
    ssize_t count;
    do
      count = read(file, bytes.data() + before, more);
    while (count < 0 && errno == EINTR);
    if (count < 0)
      wrong = std::error_code(errno, std::generic_category());
    bytes.truncate(before + std::max<ssize_t>(count, 0));
    ended = count == 0;
    tooLarge = int64_t(bytes.size()) > kMostIrBytes;
  }
  if (!isInput)
    close(file);
  if (wrong)
    fail(error, wrong.message(), SHALE_EXIT_NO_INPUT);
  else if (tooLarge)
    fail(error, "is more than " + Twine(kMostIrBytes >> 30) + " GiB of IR", SHALE_EXIT_DATA);
  if (wrong || tooLarge)
    return failOf(name, error);
  auto buffer = std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(bytes), name,
                                                                /*RequiresNullTerminator=*/true);
  if (llvm::Error deep = checkParseLimits(buffer->getMemBufferRef())) {
    error = {llvm::toString(std::move(deep)), SHALE_EXIT_DATA};
    return nullptr;
  }
  expectLongLines(buffer->getBuffer());
  return buffer;
}
