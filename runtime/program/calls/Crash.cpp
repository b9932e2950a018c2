// Reports a crash of this process: in a library, or in code that Shale generated.
#include "runtime/core/Error.h"
#include "runtime/core/Threads.h"
#include "runtime/program/launch/Signals.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <execinfo.h>
#include <initializer_list>
#include <new>
#include <sys/resource.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SHALE_REPORTS_CRASHES 0 // the sanitizer does
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SHALE_REPORTS_CRASHES 0
#endif
#endif
#ifndef SHALE_REPORTS_CRASHES
#define SHALE_REPORTS_CRASHES 1
#endif

namespace shale::rt {

static const char *const *runningNode = nullptr;
static bool dumpsCore = false;

/// Calls only functions that are safe in a signal handler.
static void report(int signal) {
  char line[512];
  size_t length = 0;
  auto add = [&](const char *text) {
    for (; *text && length < sizeof(line) - 1; ++text)
      line[length++] = *text;
  };
  int rank = speaker();
  if (rank >= 0) {
    char digits[12];
    int at = sizeof(digits) - 1;
    digits[at] = '\0';
    do
      digits[--at] = static_cast<char>('0' + rank % 10);
    while ((rank /= 10) > 0);
    add("rank ");
    add(digits + at);
    add(": ");
  }
  add("error: the program crashed (");
  const char *name = sigabbrev_np(signal);
  add("SIG");
  add(name ? name : "?");
  const char *node = runningNode ? *runningNode : nullptr;
  if (node && *node) {
    add(") at node '");
    for (int n = 0; *node && n < 200; ++node, ++n)
      if (static_cast<unsigned char>(*node) >= ' ' && length < sizeof(line) - 1)
        line[length++] = *node;
    add("'");
  } else {
    add(")");
  }
  add("; this is a bug, or the machine is out of memory. The newest checkpoint is intact: start "
      "the same command again to go on from it\n");
  if (write(STDERR_FILENO, line, length) < 0) {
    // The crash cannot be reported anywhere else.
  }
  if (!dumpsCore)
    _exit(SHALE_EXIT_INTERNAL);
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  raise(signal);
}

/// Ends the process for an exception that nothing catches: in a thread, or within compiled code.
[[noreturn]] static void reportException() {
  try {
    if (std::exception_ptr error = std::current_exception())
      std::rethrow_exception(error);
  } catch (const Error &error) {
    die(error.code, error.what());
  } catch (const std::bad_alloc &) {
    die(SHALE_EXIT_NO_FIT, "out of memory");
  } catch (const std::exception &error) {
    die(SHALE_EXIT_INTERNAL, error.what());
  }
  abort();
}

void useCrashStack() {
  constexpr size_t bytes = 64 << 10;
  static thread_local char memory[bytes];
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = bytes;
  sigaltstack(&stack, nullptr);
}

void reportCrashes(const char *const *node) {
  std::set_terminate(reportException);
  if (!SHALE_REPORTS_CRASHES)
    return;
  runningNode = node;
  rlimit core{};
  dumpsCore = getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_cur > 0;
  // glibc loads libgcc_s when a thread is first unwound, which fails without memory.
  void *frame = nullptr;
  backtrace(&frame, 1);
  useCrashStack();
  struct sigaction action{};
  action.sa_handler = report;
  action.sa_flags = SA_ONSTACK | SA_RESETHAND;
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT})
    sigaction(signal, &action, nullptr);
}

} // namespace shale::rt
