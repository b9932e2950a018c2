// Signals that request an orderly exit: SIGTERM, SIGUSR1, SIGHUP (exit code 75) and SIGINT (130).
//
// They are blocked in every thread from before main() on, through exec, and one thread waits for
// them: no handler ever runs on a thread that computes. oneDNN's generated matmuls run with the
// stack pointer inside a heap buffer, where the kernel's signal frame would overwrite memory.
#ifndef SHALE_RUNTIME_PROGRAM_LAUNCH_SIGNALS_H
#define SHALE_RUNTIME_PROGRAM_LAUNCH_SIGNALS_H

#include "runtime/program/launch/Requests.h"

#include <csignal>

namespace shale::rt {

/// Returns the signals that request an exit. SIGHUP is left out if it is ignored, as under nohup.
sigset_t exitSignals();

/// Blocks these signals in the calling thread, or delivers them as the system does by default.
/// Threads and programs that are started later inherit it.
void blockExitSignals();
void unblockExitSignals();

/// Returns the exit code that a signal asks for: 75; 130 for SIGINT; 0 for none.
int exitCodeOf(int signal);
/// Returns what a signal means after those that this process has taken before.
Meaning take(const siginfo_t &info);

/// Starts the thread that waits for these signals; call it once, before other threads start. Until
/// recordSignals(), a signal ends the process at once with its exit code, as there is nothing to
/// save. After it, a request is recorded, its copies are ignored, and another one ends the process
/// with 128 + the signal's number. `speaks`: whether this process reports that it stops.
void watchSignals(bool speaks);

/// Called when the ranks begin to agree on requests to exit: from here on signals are recorded.
void recordSignals();
/// Called when a step has changed the state.
void noteUnsavedStep();

/// Returns the exit code for the recorded signal (75; 130 for SIGINT), or 0. Also receives a signal
/// that was sent to the calling thread and not to the process.
int requestedExit();

/// Returns the exit code of a signal that reached this process, or reaches it within half a second,
/// while it has nothing to save; else 0. If a peer failed then, the same signal stopped it.
int exitInsteadOfPeerFailure();

/// Installs handlers that report a crash (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT) and the node of
/// the model at `*node`, and exit with code 70, or dump core if that is enabled. They run on a
/// stack of their own, which the calling thread gets here and the others by useCrashStack().
void reportCrashes(const char *const *node);
void useCrashStack();

} // namespace shale::rt

#endif
