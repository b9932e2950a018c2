// Signals that request an orderly exit.
#ifndef SHALE_RUNTIME_PROGRAM_SIGNALS_H
#define SHALE_RUNTIME_PROGRAM_SIGNALS_H

namespace shale::rt {

/// Installs handlers that record SIGTERM, SIGUSR1 and SIGINT; a second signal ends
/// the process at once.
void watchSignals();

/// Returns the exit code for the recorded signal (75; 130 for SIGINT), or 0.
int requestedExit();

} // namespace shale::rt

#endif
