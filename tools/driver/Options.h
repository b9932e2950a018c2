//===- Options.h - The flags of shalec ------------------------------------===//
#ifndef SHALE_DRIVER_OPTIONS_H
#define SHALE_DRIVER_OPTIONS_H

#include "dialects/nn/Optimizers.h"
#include "lib/Support/ByteSize.h"
#include "lib/Support/MeshSpec.h"
#include "lib/Support/Policies.h"
#include "lib/Target/Machines.h"
#include "llvm/ADT/StringRef.h"
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shale {

/// How far a compilation goes and what it writes.
enum class Emit { NN, Dist, RT, LLVM, Object, Program };

/// What the paths of weights in the program are.
enum class EmbedPath { Relative, Absolute };

class Target;
struct Knob;

/// A value of --dim.
struct DimSize {
  std::string name;
  std::optional<int64_t> size; ///< none: the largest that fits
  bool perRank = false;        ///< whether it is the size of each rank's part
};

enum class ReportKind { Memory, Comm, Numerics, Kernels };

/// A value of --report.
struct Report {
  ReportKind kind;
  std::optional<std::string> path; ///< none: standard output

  llvm::StringRef file() const { return path ? llvm::StringRef(*path) : llvm::StringRef("-"); }
};
/// Return the words of --report and --emit.
llvm::StringRef nameOf(ReportKind kind);
llvm::StringRef nameOf(Emit emit);

/// A part of --compare: a flag and the values that a table of plans has rows for.
struct Comparison {
  const Knob *knob;
  std::vector<std::string> values;
};

/// The flags of shalec, parsed and checked one by one (tools/driver/Flags.h). Values that can only
/// be checked against the model (names, sizes) are checked by the stage that uses them.
struct CompileOptions {
  std::string model;
  std::string output;
  Emit emit = Emit::Program;
  std::string saveTemps;
  bool savePasses = false;
  bool printPasses = false;    ///< print the IR after each pass to standard error
  std::string crashReproducer; ///< file for the module and the passes of a stage that fails
  bool describe = false;
  /// Whether paths of weights in the program are relative to its folder; if not typed: where they
  /// lie in that folder.
  EmbedPath embedPath = EmbedPath::Absolute;
  bool bundle = false; ///< whether shared libraries are copied beside the program
  bool remarks = false;
  std::string remarksFilter; ///< regular expression of categories; empty: all

  std::vector<DimSize> dims;
  std::vector<std::string> batchDims;                     // INPUT:DIM
  std::vector<std::pair<std::string, std::string>> binds; // input, binding
  std::string loss;
  std::string lossOutput;
  std::vector<std::string> gradients; // of --gradient, as typed
  std::string dropout;                // "", "off" or a ratio, as typed
  bool keepPrefix = false;
  bool assumeAutocast = false;
  std::vector<std::string> assumeDerivative; // of autograd.Functions
  std::vector<std::string> assumeForm;       // of operations of PyTorch
  std::vector<std::string> assumeMerged;     // operations of PyTorch
  std::optional<bool> assumeTied;            // of weights with equal elements
  std::vector<std::string> constants;        // initializers
  bool recover = true;

  MeshSpec mesh;
  Sharding shard = Sharding::None; ///< if not typed: full if a shard axis is larger than one
  bool reshardAfterForward = true;
  bool keepSingleRank = false; ///< --keep-single-rank-collectives
  TensorPlan tensor;
  SequenceParallel sequenceParallel = SequenceParallel::Auto;
  UnitPolicy unit;
  std::string freeze;
  std::string noDecay;
  /// By name of a factor in `#nn.update_factors`.
  std::map<std::string, UpdateScales> updateScales;
  OptimizerChoices optimizers; ///< by parameter
  const nn::Optimizer *optimizer = nn::getOptimizers().front();
  FloatKind paramDtype = FloatKind::F32, reduceDtype = FloatKind::F32, bufferDtype = FloatKind::F32;
  MasterKind masterDtype = MasterKind::F32;
  RoundingKind paramRounding = RoundingKind::Nearest;
  MomentKind optimizerDtype = MomentKind::F32;
  ProductKind productDtype = ProductKind::Param;
  WireTypes wire;
  int prefetch = 1;
  int maxGathersInFlight = 2;
  ReductionOrder order = ReductionOrder::Overlap;
  RecomputePolicy recompute;
  bool recomputeAuto = false; ///< typed as auto: the planner chooses `recompute`
  LossChunk lossChunk;
  AttentionKind attention = AttentionKind::Auto;
  bool deterministic = true;
  bool allowTf32 = false;
  bool fastMath = false;
  int threads = 0; ///< per rank; 0: this machine's CPUs divided among the ranks
  int accumulate = 1;
  bool syncEveryMicrobatch = true;
  std::optional<int64_t> bucketSize; ///< bytes; if not typed: see reductionBucket
  OffloadPolicy offload;
  std::string target = "cpu:native";

  MemoryLimit memoryLimit;
  bool planOnly = false;
  bool advice = true; ///< whether other flags are planned, for the lines of changes
  std::vector<Report> reports;
  std::vector<std::string> why; // tensors or source nodes
  std::vector<Comparison> compare;
  const Rates *machine = nullptr;   // orders plans; set by the target unless given
  std::string machineFile;          ///< the file of --machine, if it names no known machine
  std::vector<std::string> plugins; // files of --load-pass-plugin
  /// Pipelines of --insert-pass, in order: the stage after which one runs, and its text.
  std::vector<std::pair<std::string, std::string>> inserted;
  std::string compileFrom;       // the stage after which `model`, a dump, goes on
  std::vector<std::string> argv; // as typed
  std::vector<std::pair<std::string, std::string>> flags; // name and value of each typed flag
  std::vector<std::string> words; // argv without the tool, -o and --describe
  std::set<std::string> typed;    // names of the flags that were given

  /// Whether parameters are stored as shards and units are gathered for use.
  bool gathersUnits() const { return dist::splitsParameters(strategyOf(shard)); }
  /// Whether updates round parameters stochastically, if these are in bf16.
  bool roundsStochastically() const {
    return paramRounding == RoundingKind::Stochastic && masterDtype == MasterKind::None;
  }
  /// Whether trained parameters are, for this or for gathers in another type.
  bool gathersTrained() const {
    return gathersUnits() ||
           (wire.gather != WireKind::Same && dist::splitsOptimizer(strategyOf(shard)));
  }
  /// Whether gradients are reduce-scattered as soon as they are complete.
  bool scattersGradients() const { return dist::splitsGradients(strategyOf(shard)); }
  /// Whether --compare names a flag.
  bool compares(llvm::StringRef flag) const;
  /// Returns a flag's value as typed; "" if it was not given.
  llvm::StringRef typedText(llvm::StringRef flag) const;
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
int checkFlags(const CompileOptions &options, const Target &target);

} // namespace shale

#endif // SHALE_DRIVER_OPTIONS_H
