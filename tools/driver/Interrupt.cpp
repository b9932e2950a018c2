//===- Interrupt.cpp - A compilation that is stopped ----------------------===//
#include "tools/driver/Interrupt.h"
#include "lib/Target/Link.h"
#include "shale/Runtime.h"
#include "llvm/Support/Signals.h"
#include <csignal>
#include <unistd.h>

/// Calls only what a signal may call.
static void stop(int signal) {
  shale::stopLinker();
  llvm::sys::RunInterruptHandlers(); // removes what RemoveFileOnSignal was told of
  _exit(signal == SIGINT ? SHALE_EXIT_INTERRUPTED : SHALE_EXIT_PREEMPTED);
}

void shale::handleInterrupts() {
  constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before[3], own = {};
  for (int i = 0; i < 3; ++i)
    sigaction(signals[i], nullptr, &before[i]);
  llvm::sys::SetInterruptFunction(nullptr); // LLVM's handlers come first, or they would come later
  own.sa_handler = stop;
  sigfillset(&own.sa_mask);
  for (int i = 0; i < 3; ++i) // what nohup ignores stays ignored
    sigaction(signals[i], before[i].sa_handler == SIG_IGN ? &before[i] : &own, nullptr);
  signal(SIGXFSZ, SIG_IGN);
}
