// The data of a run.
#ifndef SHALE_RUNTIME_PROGRAM_LOOP_RUNDATA_H
#define SHALE_RUNTIME_PROGRAM_LOOP_RUNDATA_H

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/data/Batches.h"
#include "runtime/program/loop/RunSetup.h"

#include <optional>
#include <vector>

namespace shale::rt {

/// Opens what a run trains on and what it evaluates.
class RunData {
public:
  /// Every rank constructs it. Fails on all ranks with exit code 65 if the data is not that of the
  /// checkpoint from which the run resumes at `position`. Rank 0 prints what the files hold.
  RunData(const RunSetup &setup, const Position &position);

  /// Returns the data of training. There is none with --eval-only.
  Batches &training() { return *ofTraining; }
  /// Returns the data of evaluations; null if the run has none.
  Batches *evaluation() { return ofEvaluation ? &*ofEvaluation : nullptr; }
  /// Returns the files of the training data on rank 0, for checkpoints; none on other ranks.
  const std::vector<DataFile> &files() const { return trainingFiles; }

private:
  void compareWithCheckpoint(const Position &position);
  void introduce() const;

  const RunSetup &setup;
  std::optional<Batches> ofTraining, ofEvaluation;
  std::vector<DataFile> trainingFiles;
};

} // namespace shale::rt

#endif
