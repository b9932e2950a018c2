// Records signals; the training loop checks for them between steps.
#include "runtime/program/Signals.h"
#include "shale/Runtime.h"

#include <atomic>
#include <csignal>
#include <unistd.h>

namespace shale::rt {

static std::atomic<int> noted{0};

static void note(int signal) {
  int before = 0;
  if (!noted.compare_exchange_strong(before, signal))
    _exit(128 + signal);
}

void watchSignals() {
  struct sigaction action{};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr);
  sigaction(SIGXFSZ, &ignore, nullptr); // a write beyond the file-size limit returns an error
}

int requestedExit() {
  int signal = noted.load();
  if (signal == 0)
    return 0;
  return signal == SIGINT ? SHALE_EXIT_INTERRUPTED : SHALE_EXIT_PREEMPTED;
}

} // namespace shale::rt
