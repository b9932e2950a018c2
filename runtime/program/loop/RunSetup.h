// What the parts of a run on one rank share.
#ifndef SHALE_RUNTIME_PROGRAM_LOOP_RUNSETUP_H
#define SHALE_RUNTIME_PROGRAM_LOOP_RUNSETUP_H

#include "runtime/comm/Connection.h"
#include "runtime/program/flags/Options.h"

namespace shale::rt {

/// The program, its flags, and this rank among its peers. Nothing changes once the run has read its
/// state.
struct RunSetup {
  const ShaleProgram &program;
  Options options; // a checkpoint that the run resumes from may set the seed
  Rendezvous rendezvous;
  Connection connection; // empty until the rank is connected

  int rank() const { return rendezvous.rank; }
  /// Whether this rank prints, and writes the files of the run.
  bool isFirst() const { return rendezvous.rank == 0; }
  Peers &peers() const { return *connection.peers; }
};

} // namespace shale::rt

#endif
