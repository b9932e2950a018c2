//===- Flags.h - The table of shalec's flags ------------------------------===//
//
// One row a flag: its text in --help, how a value is parsed to and printed from CompileOptions, and
// what it changes. What is recorded in dumps and the key under which plans are shared follow from
// the table. Its rows are in Options.td.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_OPTIONS_FLAGS_H
#define SHALE_OPTIONS_FLAGS_H

#include "lib/Options/Options.h"
#include "llvm/ADT/ArrayRef.h"

namespace shale {

/// What a flag changes.
enum class Effect {
  Report,  ///< what is printed or written beside the program
  Program, ///< the files of the program, but no stage
  Model,   ///< the imported module or the recover stage, with which planning begins
  Graph,   ///< stages up to partition
  Plan,    ///< only the stages after it
  Choice   ///< which plan is chosen
};

struct Flag {
  const char *name;  ///< without the dashes
  const char *value; ///< what stands for its value in --help; null for a flag without a value
  const char *group; ///< its heading in --help
  Effect effect;
  std::string help;
  /// Parses a value. Returns what is wrong with it, or an empty string. A flag that may be repeated
  /// is set once for each value.
  std::string (*set)(CompileOptions &, llvm::StringRef value);
  /// Returns the value as text, for flags with the effect Graph or Plan; "" for an empty value.
  std::string (*get)(const CompileOptions &) = nullptr;
  bool repeated = false;
  /// Whether the flag changes which parameters are updated, or how: a file with updates of its own
  /// leaves no choice.
  bool ofUpdates = false;

  /// Whether options that differ in the flag may give different plans of one recovered module.
  bool changesPlan() const { return effect == Effect::Graph || effect == Effect::Plan; }
};

/// The heading of flags that only --help-all shows.
inline constexpr const char *kExtendGroup = "Extending Shale";

/// Returns all flags in the order of --help, without MODEL and -o. Targets must be registered
/// before the first call.
llvm::ArrayRef<Flag> allFlags();
/// Returns the flag of that name, or null.
const Flag *flagNamed(llvm::StringRef name);

} // namespace shale

#endif // SHALE_OPTIONS_FLAGS_H
