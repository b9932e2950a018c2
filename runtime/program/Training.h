// One run of the program on one rank: set up, train, save, report.
#ifndef SHALE_RUNTIME_PROGRAM_TRAINING_H
#define SHALE_RUNTIME_PROGRAM_TRAINING_H

#include "runtime/checkpoint/Initial.h"
#include "runtime/comm/Connection.h"
#include "runtime/core/Rank.h"
#include "runtime/data/Batches.h"
#include "runtime/device/State.h"
#include "runtime/metrics/Metrics.h"
#include "runtime/metrics/Progress.h"
#include "runtime/metrics/TensorBoard.h"
#include "runtime/program/Options.h"
#include "runtime/program/Watch.h"

#include <optional>

namespace shale::rt {

struct Evaluation {
  double loss = 0, labels = 0; // mean loss, and the number of labels it is over
  int64_t batches = 0;
};

class Training {
public:
  Training(const ShaleProgram &program, const Options &options, const Rendezvous &rendezvous);
  ~Training();
  /// Trains to the end; returns the exit code.
  int run();

private:
  void openFolder();
  void openData();
  void restore();
  void shareThreads();
  void introduce();
  /// Runs one step; returns false if the update was not applied.
  bool step();
  /// Evaluates at most `most` micro-batches; 0: the whole file.
  Evaluation evaluate(int64_t most);
  int evaluateOnly();
  /// Saves a checkpoint; returns whether it is on disk. A periodic one may fail
  /// with a warning.
  void save(bool last);
  void writeModel();
  void reportBuffers();
  /// Writes report.html at the end of a run, on rank 0.
  void report(const char *end);
  void setHyper();

  const ShaleProgram &program;
  Options options;
  Rendezvous rendezvous;
  ShaleRank self;
  std::unique_ptr<Device> device;
  Connection connection;
  std::optional<State> state;
  std::unique_ptr<Memory> arena, hostArena;
  std::vector<std::unique_ptr<Memory>> inputBlocks;
  std::vector<void *> inputs;
  std::vector<float> hyper, metrics, evalMetrics;
  std::optional<Batches> data, evalData;
  std::optional<Metrics> log;
  std::optional<TensorBoard> board;
  Progress progress = Progress::ofStdout();
  std::optional<Watch> watch;
  int lock = -1;
  int coreShare = 1;
  int64_t current = 0;  // the step to run next
  int64_t updates = 0;  // applied so far: steps minus skipped ones
  int64_t firstRow = 0; // its position in a token file's order
  int64_t savedStep = -1;
  int failedSaves = 0;
};

// The options that concern the data, and those that concern the initial weights.
DataOptions dataOptions(const Options &options, bool evaluation);
InitOptions initOptions(const Options &options);
/// Fails with exit code 65 if the file has fewer micro-batches than the run needs.
void needMicroBatches(const Batches &data, const Options &options, int64_t perStep);

/// Index of a metric by name; -1 when the program has none.
int findName(const char *const *names, int count, const char *name);

/// Converts --epochs to steps.
void resolveSteps(const ShaleProgram &program, Options &options);

/// Checks what can be checked without peers: files exist, are complete and large
/// enough, and no checkpoint conflicts with --resume never. Run by the launcher
/// before it starts ranks, so that one message is printed.
void checkOptions(const ShaleProgram &program, const Options &options);

} // namespace shale::rt

#endif
