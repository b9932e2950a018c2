// When and how checkpoints are written.
#include "runtime/program/loop/CheckpointSaver.h"
#include "runtime/core/Error.h"
#include "runtime/core/HostMemory.h"
#include "runtime/core/Profile.h"
#include "runtime/core/StorageWait.h"
#include "runtime/program/flags/Limits.h"

#include <algorithm>

namespace shale::rt {

namespace {
constexpr double mostUsed = 0.95; // of the memory that is available

/// Returns why a copy of the state has no room under the compiled-in limit of memory; "" if it has.
std::string excess(const ShaleProgram &program, int64_t copy) {
  const std::pair<int64_t, bool> limits[] = {{program.host_limit, false},
                                             {program.total_limit, true}};
  for (auto [limit, both] : limits)
    if (int64_t planned = plannedBytes(program, both, true); limit > 0 && copy > limit - planned)
      return format("of the %lld bytes of --memory-limit, the plan leaves %lld", (long long)limit,
                    (long long)std::max<int64_t>(0, limit - planned));
  return "";
}
} // namespace

CheckpointSaver::CheckpointSaver(const RunSetup &setup, LoadedProgram &loaded, RunLogs &logs)
    : setup(setup), program(setup.program), options(setup.options), loaded(loaded), logs(logs) {
  if (mayWriteInBackground(options))
    planBackground();
}

bool CheckpointSaver::mayWriteInBackground(const Options &options) {
  return options.saveEvery > 0 && options.asyncSave != "false" && !options.evalOnly;
}

void CheckpointSaver::planBackground() {
  Peers &peers = setup.peers();
  Device &device = *loaded.rank().device;
  int64_t copy = peers.agree(StateCopy::bytesFor(program, setup.rank(), options.checkpoint));
  std::string trouble = excess(program, copy);
  if (trouble.empty()) {
    // The ranks of a host take what they have planned and the copy. Some of it is in use already.
    int64_t planned = plannedBytes(program, device.sharesMemory(), true);
    int64_t more = std::max<int64_t>(0, planned - residentBytes()) + copy;
    int64_t available = static_cast<int64_t>(mostUsed * static_cast<double>(availableHostBytes()));
    if (more > available / std::max(1, setup.rendezvous.localSize))
      trouble = format("the rank and the copy take %s more, and %s are available for the %d rank%s "
                       "of this host",
                       mebibytes(more).c_str(), mebibytes(available).c_str(),
                       setup.rendezvous.localSize, setup.rendezvous.localSize == 1 ? "" : "s");
  }
  std::unique_ptr<StateCopy> made;
  try {
    if (trouble.empty())
      made = std::make_unique<StateCopy>(program, setup.rank(), options.checkpoint, device);
  } catch (const Error &error) {
    if (error.code != SHALE_EXIT_NO_FIT)
      throw;
    trouble = error.what();
  }
  bool isOff = peers.agree(!trouble.empty()) != 0;
  if (isOff && trouble.empty())
    trouble = "another rank has no room for it";
  if (isOff && options.asyncSave == "true")
    fail(SHALE_EXIT_NO_FIT,
         "--async-save true: the copy of the state takes %lld bytes of host memory per rank, but "
         "%s; use --async-save false",
         (long long)copy, trouble.c_str());
  if (!isOff)
    background.emplace(std::move(made));
  if (!setup.isFirst())
    return;
  if (isOff)
    printf(
        "saves: training waits for them; a copy of the state would take %lld bytes of host memory "
        "per rank, but %s\n",
        (long long)copy, trouble.c_str());
  else
    printf(
        "saves: while training goes on; the copy of the state takes %lld bytes of host memory per "
        "rank\n",
        (long long)copy);
  fflush(stdout);
}

void CheckpointSaver::prepare() {
  finish();
  bool lost = logs.sync(); // a checkpoint on disk has the metrics of its steps beside it
  // The others wait here for the storage of rank 0, and not in the next step.
  StorageWait storage("the metrics");
  if (setup.peers().agree(lost) != 0)
    savedStep = -1;
}

void CheckpointSaver::save(const Position &position, bool last) {
  prepare();
  if (savedStep == position.step)
    return;
  if (last || !background)
    return saveNow(position, last);
  double start = profileNow();
  background->start(loaded.state(), [this, position](const StateReader &copy) {
    write(copy, *setup.connection.writers, position);
  });
  copying += profileNow() - start;
  startedStep = position.step;
  ++backgroundSaves;
}

void CheckpointSaver::saveAfterFailure(const Position &position) {
  if (!options.saveOnFailure)
    return;
  try {
    prepare();
    if (savedStep == position.step)
      return;
    saveNow(position, /*last=*/true);
    if (setup.isFirst())
      printf("saved the state before step %lld\n", (long long)position.step + 1);
    fflush(stdout);
  } catch (const Error &error) {
    if (error.code != SHALE_EXIT_IO)
      throw;
    warn("%s", error.what());
  }
}

void CheckpointSaver::saveNow(const Position &position, bool last) {
  try {
    write(loaded.state(), setup.peers(), position);
    savedStep = position.step;
    failedSaves = 0;
  } catch (const Error &error) {
    noteFailure(error, last);
  }
}

void CheckpointSaver::write(const StateReader &state, Peers &peers, const Position &position) {
  saveCheckpoint(program, setup.rank(), state, peers, options.out, options.checkpoint,
                 options.fileBytes, options.keep, position);
}

void CheckpointSaver::finish() {
  if (!background || !background->inFlight())
    return;
  try {
    bool isLate = !background->isWritten();
    double waited = background->finish();
    delayedSaves += isLate;
    delay += isLate ? waited : 0;
    savedStep = startedStep;
    failedSaves = 0;
  } catch (const Error &error) {
    noteFailure(error, /*last=*/false);
  }
}

void CheckpointSaver::noteFailure(const Error &error, bool last) {
  if (error.code != SHALE_EXIT_IO || last || ++failedSaves >= 3)
    throw error;
  warn("%s; training goes on without this checkpoint", error.what());
}

std::string CheckpointSaver::describe() const {
  if (backgroundSaves == 0)
    return "";
  return format("%lld while training went on: the copies took %.2f s, and %lld time%s training "
                "waited for the save before, %.2f s in all",
                (long long)backgroundSaves, copying, (long long)delayedSaves,
                delayedSaves == 1 ? "" : "s", delay);
}

} // namespace shale::rt
