// Checks of the flags before ranks are started.
#include "runtime/program/flags/Check.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/program/launch/RunId.h"

#include <cstdlib>

namespace shale::rt {

DataOptions dataOptions(const Options &options, bool evaluation) {
  DataOptions data;
  data.path = evaluation && !options.evalData.empty() ? options.evalData : options.data;
  data.binType = options.tokenDtype;
  data.typed = options.tokenDtypeGiven;
  data.seed = options.seed;
  data.repeat = options.epochs > 1 && !evaluation;
  data.shuffle = options.shuffle && !evaluation;
  return data;
}

InitOptions initOptions(const Options &options) { return {options.init, options.initMap}; }

DeviceOptions deviceOptions(const Options &options, const Rendezvous &rendezvous) {
  // The host takes part in staged collectives, so a call with them cannot be replayed.
  bool graphs = options.graph && (rendezvous.worldSize == 1 || options.comm == "nccl");
  return {rendezvous.localRank, options.deviceLibraries, graphs};
}

void needMicroBatches(const Batches &data, const Options &options, int64_t perStep) {
  if (data.limit() < 0 || data.limit() / perStep >= options.end())
    return;
  int64_t passes = (options.steps * perStep + data.limit() - 1) / data.limit();
  fail(
      SHALE_EXIT_DATA,
      "'%s' has %lld micro-batches, the run needs %lld for each of %lld "
      "steps; lower --steps, give more data, or pass --epochs in place of --steps, which reads the "
      "data again: %lld epochs are %lld steps",
      options.data.c_str(), (long long)data.limit(), (long long)perStep, (long long)options.end(),
      (long long)passes, (long long)data.stepsIn(static_cast<double>(passes), perStep));
}

namespace {
/// Whether the run resumes from a checkpoint; fails if that is not possible.
bool checkResume(const Options &options) {
  std::vector<std::string> found = listCheckpoints(options.out);
  std::string broken = brokenCheckpoint(options.out);
  bool never = options.resume == "never";
  if (!broken.empty() && options.resume == "auto" && !found.empty())
    warn("'%s' has no manifest.json; trying the checkpoint before it", broken.c_str());
  else if (!broken.empty() && (options.resume == "auto" || options.resume == "must"))
    fail(SHALE_EXIT_DATA,
         "'%s' has no manifest.json and cannot be resumed from; delete it "
         "to %s, or pass another --out",
         broken.c_str(), found.empty() ? "begin with step 0" : "resume from the one before it");
  else if (!broken.empty() && never)
    found.push_back(broken);
  if (never && !found.empty() && !options.evalOnly)
    fail(SHALE_EXIT_USAGE,
         "'%s' has a checkpoint (%s) and --resume is never; pass another --out "
         "or --resume auto",
         options.out.c_str(), found.back().c_str());
  if (options.resume == "must" && found.empty())
    fail(SHALE_EXIT_NO_INPUT, "--resume must, but '%s' has no checkpoint", options.out.c_str());
  bool named = options.resume != "auto" && options.resume != "must" && !never;
  if (named && !exists(options.resume))
    fail(SHALE_EXIT_NO_INPUT, "--resume: there is no checkpoint at '%s'", options.resume.c_str());
  return (options.resume == "auto" && !found.empty()) || options.resume == "must" || named;
}

/// Compares the flags with those of the checkpoint. A finished run that is started again
/// with other flags was not trained with them: it is an error, not "nothing to do".
void checkFlags(const Options &options) {
  std::optional<Position> position = newestPosition(options.out, options.resume);
  if (!position)
    return;
  std::string differences = flagDifferences(options, position->flags);
  if (differences.empty())
    return;
  if (position->step >= options.end())
    fail(SHALE_EXIT_USAGE,
         "'%s' is already at step %lld, so no step is left to train up to step %lld, "
         "but the flags differ from those of that run: %s. To train with them from "
         "the start, pass another --out; to continue that run, pass a larger --steps",
         position->folder.c_str(), (long long)position->step, (long long)options.end(),
         differences.c_str());
  // With a constant learning rate, the number of steps does not affect any step.
  Options sameEnd = options;
  auto steps = position->flags.find("steps");
  if (options.schedule == "constant" && steps != position->flags.end())
    sameEnd.steps = std::strtoll(steps->second.c_str(), nullptr, 10);
  if (flagDifferences(sameEnd, position->flags).empty())
    return;
  warn("the flags differ from those of checkpoint '%s'; the run continues with %s",
       position->folder.c_str(), differences.c_str());
}
} // namespace

/// Warns about a missing padding mask, which changes the result of training.
static void noteMissing(const Batches &data) {
  if (const char *input = data.filledWithOnes())
    warn("'%s' has no tensor '%s': using all ones, so no position is masked", data.path().c_str(),
         input);
}

void resumeRestarted(Options &options) {
  if (options.resume == "auto" || options.resume == "must" || options.evalOnly ||
      listCheckpoints(options.out).empty())
    return;
  if (std::getenv(kOwnCheckpoints)) {
    options.resume = "auto";
    return;
  }
  std::string own = runId();
  std::optional<Position> newest = newestPosition(options.out, "auto");
  if (!own.empty() && newest && newest->run == own)
    options.resume = "auto";
}

void resolveSteps(const ShaleProgram &program, Options &options) {
  if (options.epochs <= 0 || options.evalOnly)
    return;
  Batches data(program, 0, dataOptions(options, false));
  options.steps = data.stepsIn(options.epochs, program.accumulate);
  if (options.steps == 0)
    fail(SHALE_EXIT_DATA,
         "--epochs %g of '%s' is less than the rows of one step; pass more "
         "epochs or data, or compile with a smaller batch",
         options.epochs, options.data.c_str());
  std::string wrong = checkSteps(options);
  if (!wrong.empty())
    fail(SHALE_EXIT_USAGE, "%s", wrong.c_str());
}

void checkOptions(const ShaleProgram &program, const Options &options) {
  for (const std::string &warning : options.warnings)
    warn("%s", warning.c_str());
  if (!checkResume(options)) {
    std::string origin = checkInitial(program, initOptions(options));
    if (!origin.empty())
      printf("%s\n", origin.c_str());
    fflush(stdout); // before ranks are started
  } else if (!options.evalOnly) {
    checkFlags(options);
  }
  if (!options.evalOnly) {
    Batches data(program, 0, dataOptions(options, false));
    needMicroBatches(data, options, program.accumulate);
    noteMissing(data);
  }
  if (options.evalOnly || !options.evalData.empty())
    noteMissing(Batches(program, 0, dataOptions(options, true)));
}

} // namespace shale::rt
