//===- CrashHandler.cpp - One line and an exit code for a crash -----------===//
#include "lib/Support/CrashHandler.h"
#include "lib/Support/Printable.h"
#include "shale/Runtime.h"
#include "llvm/Support/Signals.h"
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <unistd.h>

using namespace shale;
using llvm::StringRef;

extern "C" __attribute__((weak)) void __asan_init(); // defined in programs with AddressSanitizer

namespace {
struct Crash {
  int signal;
  const char *name;
};
constexpr Crash kCrashes[] = {
    {SIGSEGV, "segmentation fault"},  {SIGBUS, "bus error"}, {SIGILL, "illegal instruction"},
    {SIGFPE, "arithmetic exception"}, {SIGABRT, "abort"},    {SIGTRAP, "trap"},
};

/// The text that the handler prints. A handler may read it while it changes; it always ends with a
/// null.
template <size_t Size> struct Text {
  char bytes[Size] = "";
  void set(StringRef text) {
    size_t length = std::min(text.size(), Size - 1);
    std::memcpy(bytes, text.data(), length);
    std::memset(bytes + length, 0, Size - length);
  }
};
const char *tool = "";
Text<128> stage;
Text<1024> file;

/// An overflow of the stack leaves no room on it for the handler.
alignas(16) char alternateStack[1 << 16];
} // namespace

/// Calls only async-signal-safe functions.
static void onCrash(int signal) {
  char line[2048];
  size_t length = 0;
  auto append = [&](const char *text) {
    for (; *text && length + 1 < sizeof(line); ++text)
      line[length++] = *text;
  };
  append(tool);
  append(": error: internal error: ");
  for (const Crash &crash : kCrashes)
    if (crash.signal == signal)
      append(crash.name);
  if (*stage.bytes) {
    append(" while ");
    append(stage.bytes);
  }
  if (*file.bytes) {
    append(", in '");
    append(file.bytes);
    append("'");
  }
  append("; this is a bug of Shale or of MLIR: please report it with the file. SHALE_BACKTRACE=1 "
         "prints where it is");
  line[length++] = '\n';
  (void)!write(STDERR_FILENO, line, length);
  llvm::sys::RunInterruptHandlers(); // removes the files that were given to RemoveFileOnSignal
  _exit(SHALE_EXIT_INTERNAL);
}

void shale::installCrashHandler(const char *name) {
  tool = name;
  if (&__asan_init || std::getenv("SHALE_BACKTRACE"))
    return;
  llvm::sys::SetInterruptFunction(
      nullptr); // installs LLVM's handlers now; later they would replace these
  stack_t stack = {};
  stack.ss_sp = alternateStack;
  stack.ss_size = sizeof(alternateStack);
  sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_handler = onCrash;
  action.sa_flags = SA_ONSTACK | SA_RESETHAND | SA_NODEFER;
  sigfillset(&action.sa_mask);
  for (const Crash &crash : kCrashes) {
    sigdelset(&action.sa_mask, crash.signal); // a crash of the handler ends the process
    sigaction(crash.signal, &action, nullptr);
  }
}

void shale::setCrashStage(StringRef text) { stage.set(text); }

CrashStage::CrashStage(StringRef text, StringRef path)
    : stageBefore(stage.bytes), fileBefore(file.bytes) {
  stage.set(text);
  if (!path.empty())
    file.set(printable(path));
}

CrashStage::~CrashStage() {
  stage.set(stageBefore);
  file.set(fileBefore);
}
