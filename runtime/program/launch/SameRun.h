// Checks that all ranks take part in the same run.
#ifndef SHALE_RUNTIME_PROGRAM_LAUNCH_SAMERUN_H
#define SHALE_RUNTIME_PROGRAM_LAUNCH_SAMERUN_H

#include "runtime/comm/Peers.h"
#include "runtime/program/flags/Options.h"
#include "shale/Runtime.h"

#include <string>
#include <utility>
#include <vector>

namespace shale::rt {

/// What ranks of one run have in common: name and value, in order.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// Returns the facts of this process: the executable, the model and its mesh, the flags that affect
/// the run, the names, sizes and samples of the contents of the files that flags name, the newest
/// checkpoint, and environment variables of libraries that change results.
Facts factsOfRun(const ShaleProgram &program, const Options &options);

/// Returns one line that names what differs and between which ranks; "" if nothing does. Every
/// value is compared with that of rank 0.
std::string differences(const std::vector<Facts> &ranks);

/// Compares the facts of all ranks. Every rank calls it, before anything that depends on the
/// program. If they differ, every rank fails with exit code 64, and rank 0 names the difference.
void checkSameRun(const ShaleProgram &program, const Options &options, int rank, Peers &peers);

} // namespace shale::rt

#endif
