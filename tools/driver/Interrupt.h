//===- Interrupt.h - Handling of interrupted compilations -----------------===//
#ifndef SHALE_DRIVER_INTERRUPT_H
#define SHALE_DRIVER_INTERRUPT_H

namespace shale {

/// Installs signal handlers: Ctrl-C ends the process with exit code 130, SIGTERM and SIGHUP
/// with 75; a running linker is stopped and half-written files are removed. Exceeding the
/// system's file-size limit is a write error (74) and does not kill the process.
void handleInterrupts();

} // namespace shale

#endif // SHALE_DRIVER_INTERRUPT_H
