// When and how checkpoints are written.
//
// A checkpoint of --save-every is written while training goes on if memory allows a copy of the
// state (checkpoint/BackgroundSave.h). The last one of a run, also after a signal, is written
// before the run ends. All ranks decide the same, since they save at the same steps.
#ifndef SHALE_RUNTIME_PROGRAM_LOOP_CHECKPOINTSAVER_H
#define SHALE_RUNTIME_PROGRAM_LOOP_CHECKPOINTSAVER_H

#include "runtime/checkpoint/BackgroundSave.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/program/loop/LoadedProgram.h"
#include "runtime/program/loop/RunLogs.h"
#include "runtime/program/loop/RunSetup.h"

#include <optional>
#include <string>

namespace shale::rt {

/// Saves the loaded state as checkpoints of the run. Every rank calls it at the same steps.
class CheckpointSaver {
public:
  /// Decides whether checkpoints are written while training goes on, and says so. Fails with exit
  /// code 78 if memory does not allow what --async-save asks for.
  CheckpointSaver(const RunSetup &setup, LoadedProgram &loaded, RunLogs &logs);
  /// Whether checkpoints may be written while training goes on.
  static bool mayWriteInBackground(const Options &options);

  /// Says that the checkpoint of a step is on disk: it is not saved again.
  void noteSaved(int64_t step) { savedStep = step; }
  /// Saves a checkpoint. The last one of a run is on disk on return; an earlier one may be written
  /// later, and may fail with a warning.
  void save(const Position &position, bool last);
  /// With --save-on-failure, saves the state before step `position.step`. A failure to write is a
  /// warning.
  void saveAfterFailure(const Position &position);
  /// Waits for the save in flight.
  void finish();
  /// Describes the saves while training went on; "" if there was none.
  std::string describe() const;

private:
  void planBackground();
  /// Waits for the save in flight, and makes the output folder again if it was removed.
  void prepare();
  void saveNow(const Position &position, bool last);
  void write(const StateReader &state, Peers &peers, const Position &position);
  /// A save has failed: warns, or throws if it was the last one or the third in a row.
  void noteFailure(const Error &error, bool last);

  const RunSetup &setup;
  const ShaleProgram &program;
  const Options &options;
  LoadedProgram &loaded;
  RunLogs &logs;
  int64_t savedStep = -1;
  int failedSaves = 0;
  std::optional<BackgroundSave> background;
  int64_t startedStep = -1; // of the save in flight
  int64_t backgroundSaves = 0, delayedSaves = 0;
  double delay = 0, copying = 0; // seconds that steps waited for the save before, and for copies
};

} // namespace shale::rt

#endif
