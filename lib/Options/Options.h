//===- Options.h - The flags of shalec ------------------------------------===//
#ifndef SHALE_OPTIONS_OPTIONS_H
#define SHALE_OPTIONS_OPTIONS_H

#include "dialects/nn/Optimizers.h"
#include "lib/Support/ByteSize.h"
#include "lib/Support/MeshSpec.h"
#include "lib/Support/Policies.h"
#include "lib/Target/Machines.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shale {

/// How far a compilation goes and what it writes.
enum class Emit { NN, Dist, RT, LLVM, Object, Program };

/// Whether the program finds the files of its weights from its folder, or from the root.
enum class EmbedPath { Relative, Absolute };

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

/// The flags of shalec, a member for each (Options.td), parsed and checked one by one. Values that
/// can only be checked against the model (names, sizes) are checked by the stage that uses them.
struct CompileOptions {
#define GET_OPTION_MEMBERS
#include "lib/Options/Options.h.inc"

  std::string model;
  std::string output;
  std::string machineFile;       ///< the file of --machine, if it names no known machine
  bool recomputeAuto = false;    ///< --recompute is typed as auto: the planner chooses `recompute`
  std::vector<std::string> argv; ///< as typed
  std::vector<std::pair<std::string, std::string>> flags; ///< name and value of each typed flag
  std::vector<std::string> words; ///< argv without the tool, -o and --describe
  std::set<std::string> typed;    ///< names of the flags that were given

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
  /// Returns the value of --memory-limit; no limit if it is missing. An emitted program runs on
  /// this target, where device and host memory may be the same RAM; a plan is for the machine that
  /// --machine names.
  MemoryLimit limit() const;
  /// Returns the threads per rank that the program's launcher would set on this machine.
  int64_t threadsPerRank() const;
  /// Chooses the strategy if none was typed: none if no shard axis has more than one rank.
  void chooseShard();
  /// Returns the bytes of gradients that are reduced together.
  int64_t reductionBucket() const;
  /// Whether --compare names a flag.
  bool compares(llvm::StringRef flag) const;
  /// Returns a flag's value as typed; "" if it was not given.
  llvm::StringRef typedText(llvm::StringRef flag) const;
};

} // namespace shale

#endif // SHALE_OPTIONS_OPTIONS_H
