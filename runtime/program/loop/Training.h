// One run of the program on one rank: set up, train, save, report.
#ifndef SHALE_RUNTIME_PROGRAM_LOOP_TRAINING_H
#define SHALE_RUNTIME_PROGRAM_LOOP_TRAINING_H

#include "runtime/checkpoint/BackgroundSave.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Initial.h"
#include "runtime/comm/Connection.h"
#include "runtime/core/Rank.h"
#include "runtime/data/Batches.h"
#include "runtime/device/Slots.h"
#include "runtime/device/State.h"
#include "runtime/device/Tuner.h"
#include "runtime/metrics/Metrics.h"
#include "runtime/metrics/Progress.h"
#include "runtime/metrics/Prometheus.h"
#include "runtime/metrics/RankTimes.h"
#include "runtime/metrics/TensorBoard.h"
#include "runtime/program/flags/Options.h"
#include "runtime/program/launch/OutputFolder.h"
#include "runtime/program/reports/Replicas.h"
#include "runtime/program/reports/Watch.h"

#include <optional>

namespace shale::rt {

struct Evaluation {
  double loss = 0, labels = 0; // mean loss, and the number of labels it is over
  int64_t batches = 0;
  int64_t leftOut = 0; // rows that fill no micro-batch and could not be evaluated alone
};

class Training {
public:
  Training(const ShaleProgram &program, const Options &options, const Rendezvous &rendezvous);
  /// Trains to the end; returns the exit code.
  int run();

private:
  int runToEnd();
  void openLogs();
  void keepFolder();
  void openData();
  void restore();
  void shareThreads();
  void introduce();
  /// Prints what the data files hold, on rank 0.
  void introduceData();
  /// Fails with exit code 65 on all ranks if the data is not that of the checkpoint.
  void compareWithCheckpoint();
  /// Chooses the algorithms of products. Returns the exit code of a signal, or 0.
  int chooseProducts();
  std::vector<Product> distinctProducts(ProductTuner &tuner);
  int timeProducts(ProductTuner &tuner, const std::vector<Product> &products, Choices &choices);
  // Steps.cpp: the loop over steps.
  /// Runs all steps. Returns the exit code if the run ends before the last one.
  std::optional<int> train();
  /// Enqueues the next step and finishes the steps before it. Also finishes the step itself if the
  /// process must not run ahead. Returns false if an update was not applied.
  bool step();
  void enqueue();
  /// Returns whether the rows of this rank have a label that is not ignored.
  bool callStep(int64_t step, int64_t row, Observer *observer);
  void setHyper(int64_t step, int slot);
  /// Finishes steps until at most `most` are in flight. Returns false if an update was not applied.
  bool settle(size_t most);
  bool finishStep();
  void record(StepMetrics &metrics);
  /// Whether the process observes the next step's calls one by one.
  bool isObserved() const;
  /// Whether something follows the step that needs its state: an evaluation, a checkpoint, the end.
  bool isLookedAt(int64_t step) const;
  // Stops.cpp: ends of a run for a reason that is in its state.
  /// Ends the run after an update that was not applied.
  int stopNonFinite();
  /// Ends a run of which every step was left out; `ran`: whether this process ran the last one.
  int endUnchanged(bool ran);
  /// Runs the failed step again. Returns the call that made the first non-finite value, on rank 0;
  /// "" if it is not known.
  std::string diagnose();
  std::string nameOfMemory(const void *at) const;
  std::string nonFiniteIn(const ShaleState &state) const;
  /// With --save-on-failure, saves the state, which is that before step `step`.
  void saveAfterFailure(int64_t step, int64_t row);
  /// Returns the exit code if ranks hold different bits of what must be equal.
  std::optional<int> checkReplicas();
  bool isReplicaCheckDue() const;
  /// Ends a step with the other ranks: sets `requested`, and on rank 0 the times of all ranks.
  void endWithPeers(StepMetrics &metrics, double waited);
  /// Evaluates at most `most` micro-batches; 0: the whole file.
  Evaluation evaluate(int64_t most);
  int evaluateOnly();
  /// What the program's evaluation of the inputs returns.
  struct Measured {
    float sum = 0, count = 0; // of losses of labels, and of labels
    bool operator==(const Measured &other) const;
  };
  Measured measure();
  /// Whether the rows that only fill micro-batch `last` change nothing that is measured.
  bool isFilledExactly(int64_t last, const Measured &measured);
  // Saves.cpp: when and how checkpoints are written.
  /// Whether checkpoints may be written while training goes on.
  bool mayWriteInBackground() const;
  /// Decides whether they are, and says so. Fails with exit code 78 if memory does not allow what
  /// --async-save asks for.
  void planSaves();
  /// Saves a checkpoint. The last one of a run is on disk on return; an earlier one may be written
  /// later, and may fail with a warning.
  void save(bool last);
  /// Waits for the save in flight, and makes the output folder again if it was removed.
  void prepareSave();
  void saveNow(Position position, bool last);
  Position positionAt(int64_t step, int64_t row) const;
  /// Waits for the save in flight.
  void finishSave();
  /// A save has failed: warns, or throws if it was the last one or the third in a row.
  void noteFailedSave(const Error &error, bool last);
  void tellSaves() const;
  /// Prints the memory that was planned and the most that a rank took, on rank 0.
  void tellMemory();
  std::string savesText() const;
  /// As RankTimes::summary(), on rank 0.
  std::string slowestRank() const;
  /// Checks replicas, then saves. Returns the exit code if they differ: nothing is saved then.
  std::optional<int> checkAndSave(bool last);
  void writeModel();
  void writeRanks(const std::string &path, const std::string &own);
  /// Writes report.html at the end of a run, on rank 0.
  void report(const char *end);
  /// Places constants, inputs, hyper-parameters and metrics in memory.
  void placeValues();
  /// Runs a compiled function on the values that were pushed last.
  void call(ShaleFunction function);
  void callDirectly(ShaleFunction function);

  const ShaleProgram &program;
  Options options;
  Rendezvous rendezvous;
  ShaleRank self;
  std::unique_ptr<Device> device;
  Connection connection;
  std::optional<State> state;
  std::unique_ptr<Memory> arena, hostArena;
  std::unique_ptr<Memory> constants;  // unless the device shares the host's memory
  std::optional<ValueSlots> values;   // inputs, then hyper-parameters
  std::optional<ResultSlots> results; // metrics
  std::vector<void *> inputs[2];      // by slot of `values`
  std::vector<void *> inputsOfFunctions, inputsOnHost;
  int64_t samplesPerStep = 0;  // as StepMetrics::samples
  int64_t hyperOffset = 0;     // bytes into `values`
  int32_t previousEnable = -1; // index of this hyper-parameter; -1: the program has none
  std::optional<Batches> data, evalData;
  std::vector<DataFile> dataFiles, dataBefore; // on rank 0; of the checkpoint that was resumed from
  std::optional<Metrics> log;
  std::optional<TensorBoard> board;
  std::optional<Prometheus> prometheus;
  RankTimes rankTimes;     // on rank 0
  bool timesRanks = false; // whether this process waits for collectives, so that the wait is known
  int requested = 0;       // the exit code that a signal to any rank asks for, or 0
  Progress progress = Progress::ofStdout();
  std::optional<Watch> watch;
  std::optional<OutputFolder> folder; // on rank 0
  bool lostFolder = false;            // since the last save
  int coreShare = 1;
  /// A step that is enqueued, but whose metrics were not read.
  struct Flight {
    int64_t step;
    double start; // when the process began to fill its inputs, in seconds
    int64_t commBytes;
    double waited;    // for collectives, in seconds
    int64_t firstRow; // as firstRow below, of this step
    bool labelled;    // whether this rank's rows have a label that counts
  };
  bool ahead = false; // whether a step is enqueued before the metrics of the one before it are read
  Flight flights[2] = {};
  size_t inFlight = 0;
  double lastEnd = 0; // when the last step ended, in seconds

  int64_t current = 0;         // the step to finish next
  int64_t updates = 0;         // applied so far: steps minus skipped ones
  int64_t currentRow = 0;      // its position in a token file's order
  int64_t firstRow = 0;        // the position of the step to enqueue next
  Flight finished = {};        // the step that was finished last
  bool trains = false;         // whether the first step was begun
  NormHistory norms;           // with --skip-spikes
  bool toldLeftOut = false;    // whether rows that an evaluation leaves out were reported
  bool toldUnlabelled = false; // whether a step without labels was reported
  int64_t savedStep = -1;
  std::optional<Replicas> replicas; // with --check-replicas
  std::vector<float> lastMetrics;   // of the step that was finished last
  int64_t checkedStep = -1;         // before which replicas were compared last
  int failedSaves = 0;
  std::optional<BackgroundSave> background;
  int64_t startedStep = -1; // of the save in flight
  int64_t backgroundSaves = 0, delayedSaves = 0;
  double delay = 0, copying = 0; // seconds that steps waited for the save before, and for copies
};

// The options that concern the data, the initial weights and the device.
DataOptions dataOptions(const Options &options, bool evaluation);
InitOptions initOptions(const Options &options);
DeviceOptions deviceOptions(const Options &options, const Rendezvous &rendezvous);
/// Fails with exit code 65 if the file has fewer micro-batches than the run needs.
void needMicroBatches(const Batches &data, const Options &options, int64_t perStep);

/// Index of a metric by name; -1 when the program has none.
int findName(const char *const *names, int count, const char *name);

/// Set by the launcher if --out had no checkpoint when it first started the ranks.
constexpr const char *kOwnCheckpoints = "SHALE_OWN_CHECKPOINTS";

/// Sets --resume for a run that was started again after a failure: it goes on from the newest
/// checkpoint that it has saved itself, if there is one.
void resumeRestarted(Options &options);

/// Converts --epochs to steps.
void resolveSteps(const ShaleProgram &program, Options &options);

/// Checks what can be checked without peers: files exist, are complete and large
/// enough, and no checkpoint conflicts with --resume never. Run by the launcher
/// before it starts ranks, so that one message is printed.
void checkOptions(const ShaleProgram &program, const Options &options);

} // namespace shale::rt

#endif
