// Chooses the algorithms of matmuls before the first step.
//
// Rank 0 reads or times them and sends them to the others, so that all ranks compute a matmul in
// the same way. From then on nothing is timed: a step has the same bits however fast it runs.
#ifndef SHALE_RUNTIME_PROGRAM_LOOP_MATMULCHOOSER_H
#define SHALE_RUNTIME_PROGRAM_LOOP_MATMULCHOOSER_H

#include "runtime/device/Tuner.h"
#include "runtime/metrics/Progress.h"
#include "runtime/program/loop/LoadedProgram.h"
#include "runtime/program/loop/RunSetup.h"

namespace shale::rt {

/// Sets the algorithms of the loaded program's matmuls. Every rank calls it.
class MatmulChooser {
public:
  MatmulChooser(const RunSetup &setup, LoadedProgram &loaded, Progress &progress)
      : setup(setup), loaded(loaded), progress(progress) {}

  /// Chooses the algorithms. `trains`: whether matmuls may be timed and files written; without it
  /// only kept choices are used. Returns the exit code of a signal, or 0.
  int choose(bool trains);

private:
  int timeMatmuls(MatmulTuner &tuner, const std::vector<Matmul> &matmuls, Choices &choices);

  const RunSetup &setup;
  LoadedProgram &loaded;
  Progress &progress;
};

} // namespace shale::rt

#endif
