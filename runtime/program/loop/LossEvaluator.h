// Evaluates the loss over data that is not used for training.
#ifndef SHALE_RUNTIME_PROGRAM_LOOP_LOSSEVALUATOR_H
#define SHALE_RUNTIME_PROGRAM_LOOP_LOSSEVALUATOR_H

#include "runtime/data/Batches.h"
#include "runtime/program/loop/LoadedProgram.h"
#include "runtime/program/loop/RunSetup.h"

namespace shale::rt {

struct Evaluation {
  double loss = 0, labels = 0; // mean loss, and the number of labels it is over
  int64_t batches = 0;
  int64_t leftOut = 0; // rows that fill no micro-batch and could not be evaluated alone
};

/// Measures the loss of the loaded state over the evaluation data. Every rank calls it.
class LossEvaluator {
public:
  LossEvaluator(const RunSetup &setup, LoadedProgram &loaded, Batches &data)
      : setup(setup), loaded(loaded), data(data) {}

  /// Evaluates the first micro-batches of the file, at most `most` of them (0: the whole file), the
  /// same ones every time; each row at most once. Fails with exit code 65 if none can be evaluated.
  Evaluation evaluate(int64_t most);
  /// --eval-only: prints a line for people and one for programs; writes no files. Returns the exit
  /// code.
  int report(int64_t step);

private:
  /// What the program's evaluation of the inputs returns.
  struct Measured {
    float sum = 0, count = 0; // of losses of labels, and of labels
    bool operator==(const Measured &other) const;
  };
  Measured measure();
  /// Whether the rows that only fill micro-batch `last` change nothing that is measured.
  bool isFilledExactly(int64_t last, const Measured &measured);

  const RunSetup &setup;
  LoadedProgram &loaded;
  Batches &data;
  bool toldLeftOut = false; // whether rows that an evaluation leaves out were reported
};

} // namespace shale::rt

#endif
