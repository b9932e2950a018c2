// Run-time flags of an emitted program.
#ifndef SHALE_RUNTIME_PROGRAM_FLAGS_OPTIONS_H
#define SHALE_RUNTIME_PROGRAM_FLAGS_OPTIONS_H

#include "shale/Runtime.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace shale::rt {

struct Options {
  std::string data, evalData, tokenDtype = "uint16";
  bool tokenDtypeGiven = false;
  bool shuffle = true;
  int64_t evalEvery = 0, evalBatches = 20;
  bool evalOnly = false, evalBatchesGiven = false;

  int64_t steps = 100, stopAfter = 0;
  double epochs = 0; // 0: not given; resolveSteps() converts it to steps
  double lr = 3e-4, minLr = 0, decayFraction = 0.2;
  std::string schedule = "constant";
  int64_t warmup = 0;
  std::map<std::string, double>
      hypers; // by name in ShaleProgram.hyper: flags of the optimizer, and clip_grad_norm
  double skipSpikes = 0; // factor of the mean gradient norm; 0: off
  uint64_t seed = 0;
  bool seedGiven = false;

  std::string init; // source of the initial weights; empty: the model's files
  std::vector<std::string> initMap;

  std::string out = "run", resume = "auto", checkpoint = "sharded";
  std::string asyncSave = "auto";     // true, false; auto: if memory allows
  std::string dataChanged = "refuse"; // or accept: on resuming with other data
  bool saveOnFailure = false;
  int64_t saveEvery = 0, keep = 2, fileBytes = int64_t(5) * 1000 * 1000 * 1000;

  int nproc = 0; // 0: not given
  int maxRestarts = 0;
  double commTimeout = 300;
  int64_t checkReplicas = 0; // steps between comparisons of replicas; 0: off
  std::string interface; // of the network, by name or address; empty: the one towards MASTER_ADDR
  bool insecure = false; // whether ranks on several hosts may do without a secret
  bool describe = false;
  std::string verify;                      // folder of --verify-checkpoint; empty: not given
  std::string reportBuffers, reportDevice; // files; empty: none
  std::string deviceLibraries;             // folder; empty: the loader's
  bool graph = true;                       // whether the device replays a captured step
  bool tuneMatmuls = true;                 // whether algorithms of matmuls are timed
  std::string comm = "nccl"; // of a device with its own memory: nccl, or staged through the host

  std::vector<std::pair<std::string, std::string>> values; // of all flags, by name, as text
  std::vector<std::string> warnings;                       // about flags without effect

  bool tensorboard = false;
  std::string prometheus; // file; empty: none
  double peakTflops = 0;  // peak per rank; 0: not known

  std::string traceFile; // empty: off
  int64_t traceFirst = 0, traceLast = -1;

  /// The step before which the run ends.
  int64_t end() const { return stopAfter > 0 && stopAfter < steps ? stopAfter : steps; }
};

/// Outcome of parsing: run, or the text to print and the code to exit with.
struct Parsed {
  Options options;
  bool run = true;
  int exitCode = SHALE_EXIT_OK;
  std::string text; // to stdout when exitCode is 0, else to stderr
};

Parsed parseOptions(const ShaleProgram &program, int argc, const char *const *argv);

/// Returns the flag, without "--", of a hyper-parameter.
std::string hyperFlag(std::string name);

/// Returns what is wrong with flags that count steps; "" if nothing is.
std::string checkSteps(const Options &options);

/// Returns the flags that affect the result of training: name to value.
std::map<std::string, std::string> runFlags(const Options &options);

/// Returns "--lr 0.1 (was 0.2), ..." for flags whose value differs from `before`; "" if
/// there is none.
std::string flagDifferences(const Options &options,
                            const std::map<std::string, std::string> &before);

/// Returns the learning rate of `step` (from 0): warm-up to lr over `warmup` steps,
/// then the schedule until `steps`. wsd holds lr and decays linearly over the last
/// `decayFraction` of all steps.
double learningRate(const Options &options, int64_t step);
/// Returns the step, perhaps a part of one, from which wsd decays.
double decayStart(const Options &options);

/// Returns the learning rate of `step` for parameters whose --lr is `base`: min-lr has the same
/// ratio to it. With base 0 it is that of the others.
double ownRate(const Options &options, int64_t step, double base);

} // namespace shale::rt

#endif
