//===- CommandLine.h - The command line of shalec -------------------------===//
#ifndef SHALE_DRIVER_COMMANDLINE_H
#define SHALE_DRIVER_COMMANDLINE_H

#include "lib/Options/Options.h"

namespace shale {

class Target;

/// Parses argv. Returns the options, or the exit code with which the program
/// ends: 0 after --help and --version, 64 after an error that was printed.
struct ParsedOptions {
  std::optional<CompileOptions> options;
  int exitCode = 0;
};
ParsedOptions parseOptions(int argc, char **argv);

/// Refuses flags that contradict each other and warns of those that have no effect.
/// Returns an exit code.
int checkFlags(const CompileOptions &options, const Target &target);

} // namespace shale

#endif // SHALE_DRIVER_COMMANDLINE_H
