//===- Options.h - The flags of shalec ------------------------------------===//
#ifndef SHALE_DRIVER_OPTIONS_H
#define SHALE_DRIVER_OPTIONS_H

#include "dialects/dist/Dist.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shale {

/// How far a compilation goes and what it writes.
enum class Emit { NN, Dist, RT, LLVM, Object, Program };

/// The flags of shalec, parsed and checked one by one. Values that can only be checked
/// against the model (names, sizes) are checked by the stage that uses them.
struct CompileOptions {
  std::string model;
  std::string output;
  Emit emit = Emit::Program;
  std::string saveTemps;
  bool savePasses = false;
  bool printPasses = false;    ///< print the IR after each pass to standard error
  std::string crashReproducer; ///< file for the module and the passes of a stage that fails
  bool describe = false;
  bool bundle = false; ///< whether shared libraries are copied beside the program
  bool remarks = false;
  std::string remarksFilter; ///< regular expression of categories; empty: all

  std::vector<std::pair<std::string, std::string>> dims;  // name, size as typed
  std::vector<std::string> batchDims;                     // INPUT:DIM
  std::vector<std::pair<std::string, std::string>> binds; // input, binding
  std::string loss;
  std::string lossOutput;
  bool keepPrefix = false;
  bool assumeAutocast = false;
  std::vector<std::string> constants; // initializers
  bool recover = true;

  std::string mesh = "fsdp=1";
  std::string shard = "none"; ///< if not typed: full if the mesh has a shard axis larger than one
  bool reshardAfterForward = true;
  std::string unit = "block";
  std::string freeze;
  std::string noDecay;
  std::string optimizer = "adamw";
  std::string paramDtype = "f32", reduceDtype = "f32", bufferDtype = "f32"; // f32, bf16, f16
  std::string masterDtype = "f32";                                          // f32, none
  std::string optimizerDtype = "f32";                                       // f32, bf16
  int prefetch = 1;
  int maxGathersInFlight = 2;
  std::string order = "overlap"; // memory
  std::string recompute = "none";
  bool recomputeAuto = false; ///< typed as auto: the planner chooses `recompute`
  int threads = 0;            ///< per rank; 0: this machine's CPUs divided among the ranks
  int accumulate = 1;
  bool syncEveryMicrobatch = true;
  std::optional<int64_t> bucketSize; ///< bytes; if not typed: see reductionBucket
  std::string offload = "none";
  std::string target = "cpu:native";

  std::string memoryLimit; // SIZE or device=SIZE,host=SIZE
  bool planOnly = false;
  std::vector<std::string> reports; // memory, comm, numerics: KIND or KIND=FILE
  std::vector<std::string> why;     // tensors or source nodes
  std::string compare;              // flags, or flag=value|value
  std::string machine = "cpu";      // whose rates order plans
  std::vector<std::string> plugins; // files of --load-pass-plugin
  /// Pipelines of --insert-pass, in order: the stage after which one runs, and its text.
  std::vector<std::pair<std::string, std::string>> inserted;
  std::string compileFrom;       // the stage after which `model`, a dump, goes on
  std::vector<std::string> argv; // as typed
  std::vector<std::pair<std::string, std::string>> flags; // name and value of each typed flag
  std::vector<std::string> words; // argv without the tool, -o and --describe
  std::set<std::string> typed;    // names of the flags that were given

  /// Whether parameters are stored as shards and units are gathered for use.
  bool gathersUnits() const { return dist::splitsParameters(strategy()); }
  /// Whether gradients are reduce-scattered as soon as they are complete.
  bool scattersGradients() const { return dist::splitsGradients(strategy()); }
  /// The strategy of --shard.
  dist::Strategy strategy() const {
    return dist::parseStrategy(shard).value_or(dist::Strategy::None);
  }
};

/// Returns the bytes of gradients that are reduced together. The defaults are PyTorch's: DDP
/// fills buckets of 25 MiB; FSDP reduces one unit at a time (0), so that no gradient stays
/// whole longer than its unit.
int64_t reductionBucket(const CompileOptions &options);

/// Parses argv. Returns the options, or the exit code with which the program
/// ends: 0 after --help and --version, 64 after an error that was printed.
struct ParsedOptions {
  std::optional<CompileOptions> options;
  int exitCode = 0;
};
ParsedOptions parseOptions(int argc, char **argv);

/// Refuses flags that contradict each other and warns of those that have no effect.
/// Returns an exit code.
int checkFlags(const CompileOptions &options);

} // namespace shale

#endif // SHALE_DRIVER_OPTIONS_H
