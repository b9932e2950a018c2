// The thread that waits for signals; the training loop checks for them between steps.
#include "runtime/program/Signals.h"
#include "runtime/core/Error.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <unistd.h>

namespace shale::rt {

static std::atomic<int> noted{0};
static std::atomic<bool> recorded{false}, unsaved{false};
static bool speaking = false;

sigset_t exitSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGTERM, SIGINT, SIGUSR1})
    sigaddset(&set, signal);
  // A blocked signal is delivered to sigwait() even if it is ignored.
  struct sigaction action{};
  if (sigaction(SIGHUP, nullptr, &action) != 0 || action.sa_handler != SIG_IGN)
    sigaddset(&set, SIGHUP);
  return set;
}

void blockExitSignals() {
  sigset_t set = exitSignals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

void unblockExitSignals() {
  sigset_t set = exitSignals();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

static int exitCodeOf(int signal) {
  return signal == 0 ? 0 : signal == SIGINT ? SHALE_EXIT_INTERRUPTED : SHALE_EXIT_PREEMPTED;
}

static void receive(int signal) {
  int before = 0;
  if (!noted.compare_exchange_strong(before, signal))
    _exit(128 + signal);
  if (recorded)
    return;
  if (speaking) {
    const char line[] = "stopped by a signal before the first step: there is nothing to save\n";
    if (write(STDOUT_FILENO, line, sizeof(line) - 1) < 0) {
      // It cannot be reported anywhere else.
    }
  }
  _exit(exitCodeOf(signal));
}

void watchSignals(bool speaks) {
  speaking = speaks;
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr);
  sigaction(SIGXFSZ, &ignore, nullptr); // a write beyond the file-size limit returns an error
  sigset_t set = exitSignals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
  std::thread([set] {
    for (;;) {
      int signal = 0;
      if (sigwait(&set, &signal) == 0)
        receive(signal);
    }
  }).detach();
}

void recordSignals() { recorded = true; }
void noteUnsavedStep() { unsaved = true; }

int requestedExit() {
  sigset_t set = exitSignals();
  timespec none{};
  if (int signal = sigtimedwait(&set, nullptr, &none); signal > 0)
    receive(signal);
  return exitCodeOf(noted.load());
}

int exitInsteadOfPeerFailure() {
  // A launcher sends a signal to one rank after the other.
  constexpr int tries = 50;
  for (int i = 0; i < tries && !unsaved; ++i) {
    if (int code = requestedExit())
      return code;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return 0;
}

} // namespace shale::rt
