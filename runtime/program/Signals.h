// Signals that ask for an orderly end.
#ifndef SHALE_RUNTIME_PROGRAM_SIGNALS_H
#define SHALE_RUNTIME_PROGRAM_SIGNALS_H

namespace shale::rt {

/// From now on SIGTERM, SIGUSR1 and SIGINT are noted; a second one ends the
/// process at once.
void watchSignals();

/// 0, or the exit code the noted signal asks for (75; 130 for SIGINT).
int requestedExit();

} // namespace shale::rt

#endif
