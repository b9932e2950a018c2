// The thread that waits for signals; the training loop checks for them between steps.
#include "runtime/program/launch/Signals.h"
#include "runtime/core/Error.h"
#include "runtime/core/Output.h"
#include "runtime/program/launch/Requests.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace shale::rt {

static std::atomic<int> noted{0};
static std::atomic<bool> recorded{false}, unsaved{false};
static bool speaking = false;
static pid_t parent = 0;

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
  parent = getppid();
  sigset_t set = exitSignals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

void unblockExitSignals() {
  sigset_t set = exitSignals();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

int exitCodeOf(int signal) {
  return signal == 0 ? 0 : signal == SIGINT ? SHALE_EXIT_INTERRUPTED : SHALE_EXIT_PREEMPTED;
}

Meaning take(const siginfo_t &info) {
  static std::mutex mutex;
  static Requests requests;
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  int64_t at = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  std::lock_guard<std::mutex> lock(mutex);
  return requests.take({info.si_signo, at, senderOf(info, parent)});
}

static void receive(const siginfo_t &info) {
  Meaning meaning = take(info);
  if (meaning == Meaning::EndNow)
    _exit(128 + info.si_signo);
  if (meaning == Meaning::Same)
    return;
  noted = info.si_signo;
  if (recorded)
    return;
  if (speaking) {
    fputs("stopped by a signal before the first step: there is nothing to save\n", stdout);
    flushOutput(/*seconds=*/1);
  }
  _exit(exitCodeOf(info.si_signo));
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
      siginfo_t info;
      if (sigwaitinfo(&set, &info) > 0)
        receive(info);
    }
  }).detach();
}

void recordSignals() { recorded = true; }
void noteUnsavedStep() { unsaved = true; }

int requestedExit() {
  sigset_t set = exitSignals();
  timespec none{};
  siginfo_t info;
  if (sigtimedwait(&set, &info, &none) > 0)
    receive(info);
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
