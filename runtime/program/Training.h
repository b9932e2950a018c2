// One run of the program on one rank: set up, train, save, report.
#ifndef SHALE_RUNTIME_PROGRAM_TRAINING_H
#define SHALE_RUNTIME_PROGRAM_TRAINING_H

#include "runtime/checkpoint/Initial.h"
#include "runtime/comm/Connection.h"
#include "runtime/core/Rank.h"
#include "runtime/data/Batches.h"
#include "runtime/device/Mailbox.h"
#include "runtime/device/State.h"
#include "runtime/device/Tuner.h"
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
  /// Chooses the algorithms of products. Returns the exit code of a signal, or 0.
  int chooseProducts();
  std::vector<Product> distinctProducts(ProductTuner &tuner);
  int timeProducts(ProductTuner &tuner, const std::vector<Product> &products, Choices &choices);
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
  /// Places constants, inputs, hyper-parameters and metrics in memory.
  void placeValues();
  /// Runs a compiled function on the current inputs and hyper-parameters.
  void call(ShaleFunction function);
  void callDirectly(ShaleFunction function);
  float *hyper() { return reinterpret_cast<float *>(values->host() + hyperOffset); }
  const float *metrics() const { return reinterpret_cast<const float *>(results->host()); }

  const ShaleProgram &program;
  Options options;
  Rendezvous rendezvous;
  ShaleRank self;
  std::unique_ptr<Device> device;
  Connection connection;
  std::optional<State> state;
  std::unique_ptr<Memory> arena, hostArena;
  std::unique_ptr<Memory> constants; // unless the device shares the host's memory
  std::optional<Mailbox> values;     // inputs, then hyper-parameters
  std::optional<Mailbox> results;    // metrics of the function that ran last
  std::vector<void *> inputs, inputsOfFunctions;
  int64_t hyperOffset = 0; // bytes into `values`
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

// The options that concern the data, the initial weights and the device.
DataOptions dataOptions(const Options &options, bool evaluation);
InitOptions initOptions(const Options &options);
DeviceOptions deviceOptions(const Options &options, const Rendezvous &rendezvous);
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
