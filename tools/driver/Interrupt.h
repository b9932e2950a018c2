//===- Interrupt.h - A compilation that is stopped ------------------------===//
#ifndef SHALE_DRIVER_INTERRUPT_H
#define SHALE_DRIVER_INTERRUPT_H

namespace shale {

/// From here on Ctrl-C ends the process with exit code 130, SIGTERM and SIGHUP with 75;
/// a linker that runs is stopped and half-written files are removed. A file that gets
/// larger than the system allows is an error of writing (74), not the end.
void handleInterrupts();

} // namespace shale

#endif // SHALE_DRIVER_INTERRUPT_H
