// One run of the program on one rank: set up, train, save, report.
#ifndef SHALE_RUNTIME_PROGRAM_LOOP_TRAINING_H
#define SHALE_RUNTIME_PROGRAM_LOOP_TRAINING_H

#include "runtime/core/Rank.h"
#include "runtime/program/loop/CheckpointSaver.h"
#include "runtime/program/loop/LoadedProgram.h"
#include "runtime/program/loop/RunData.h"
#include "runtime/program/loop/RunLogs.h"
#include "runtime/program/loop/RunSetup.h"
#include "runtime/program/loop/TrainingLoop.h"

#include <memory>
#include <optional>

namespace shale::rt {

/// Makes the parts of a run in order, and ends the run. The parts have pointers to one another.
class Training {
public:
  Training(const ShaleProgram &program, const Options &options, const Rendezvous &rendezvous);
  Training(const Training &) = delete;
  /// Trains to the end; returns the exit code.
  int run();

private:
  int runToEnd();
  /// Opens the device, connects the ranks, and makes the memory of the program.
  void join();
  /// Restores weights and position from a checkpoint, or reads the initial weights. Returns the
  /// position; its data is that of the checkpoint.
  Position restore();
  /// Writes and prints what a run leaves that has done its last step. Returns the exit code.
  int finish();

  RunSetup setup;
  ShaleRank self;
  std::unique_ptr<Device> device;
  // In the order in which they are made; each uses those before it.
  std::optional<RunLogs> logs;
  std::optional<LoadedProgram> loaded;
  std::optional<CheckpointSaver> saver;
  std::optional<RunData> data;
  std::optional<TrainingLoop> loop;
};

} // namespace shale::rt

#endif
