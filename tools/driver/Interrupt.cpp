//===- Interrupt.cpp - Handling of interrupted compilations ---------------===//
#include "tools/driver/Interrupt.h"
#include "lib/Target/Link.h"
#include "shale/Runtime.h"
#include "llvm/Support/Signals.h"
#include <csignal>
#include <unistd.h>

/// Calls only async-signal-safe functions.
static void stop(int signal) {
  shale::stopLinker();
  llvm::sys::RunInterruptHandlers(); // removes the files that were given to RemoveFileOnSignal
  _exit(signal == SIGINT ? SHALE_EXIT_INTERRUPTED : SHALE_EXIT_PREEMPTED);
}

void shale::handleInterrupts() {
  constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before[3], own = {};
  for (int i = 0; i < 3; ++i)
    sigaction(signals[i], nullptr, &before[i]);
  llvm::sys::SetInterruptFunction(
      nullptr); // installs LLVM's handlers now; later they would replace ours
  own.sa_handler = stop;
  sigfillset(&own.sa_mask);
  for (int i = 0; i < 3; ++i) // signals that nohup ignores stay ignored
    sigaction(signals[i], before[i].sa_handler == SIG_IGN ? &before[i] : &own, nullptr);
  signal(SIGXFSZ, SIG_IGN);
}
