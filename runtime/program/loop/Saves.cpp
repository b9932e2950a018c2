// When and how checkpoints are written.
//
// A checkpoint of --save-every is written while training goes on if memory allows a copy of the
// state (checkpoint/BackgroundSave.h). The last one of a run, also after a signal, is written
// before the run ends. All ranks decide the same, since they save at the same steps.
#include "runtime/core/Error.h"
#include "runtime/core/HostMemory.h"
#include "runtime/core/Profile.h"
#include "runtime/core/StorageWait.h"
#include "runtime/program/flags/Limits.h"
#include "runtime/program/launch/RunId.h"
#include "runtime/program/loop/Training.h"

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

bool Training::mayWriteInBackground() const {
  return options.saveEvery > 0 && options.asyncSave != "false" && !options.evalOnly;
}

void Training::planSaves() {
  if (!mayWriteInBackground())
    return;
  Peers &peers = *connection.peers;
  int64_t copy = peers.agree(StateCopy::bytesFor(program, rendezvous.rank, options.checkpoint));
  std::string trouble = excess(program, copy);
  if (trouble.empty()) {
    // The ranks of a host take what they have planned and the copy. Some of it is in use already.
    int64_t planned = plannedBytes(program, device->sharesMemory(), true);
    int64_t more = std::max<int64_t>(0, planned - residentBytes()) + copy;
    int64_t available = static_cast<int64_t>(mostUsed * static_cast<double>(availableHostBytes()));
    if (more > available / std::max(1, rendezvous.localSize))
      trouble = format("the rank and the copy take %s more, and %s are available for the %d rank%s "
                       "of this host",
                       mebibytes(more).c_str(), mebibytes(available).c_str(), rendezvous.localSize,
                       rendezvous.localSize == 1 ? "" : "s");
  }
  std::unique_ptr<StateCopy> made;
  try {
    if (trouble.empty())
      made = std::make_unique<StateCopy>(program, rendezvous.rank, options.checkpoint, *device);
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
  if (rendezvous.rank != 0)
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

Position Training::positionAt(int64_t step, int64_t row) const {
  Position position;
  position.step = step;
  position.updates = updates;
  position.row = row;
  position.seed = options.seed;
  if (options.skipSpikes > 0)
    position.norms = norms;
  position.flags = runFlags(options);
  position.data = dataFiles;
  position.run = runId();
  return position;
}

void Training::prepareSave() {
  finishSave();
  keepFolder();
  if (log)
    log->sync(); // a checkpoint on disk has the metrics of its steps beside it
  // The others wait here for the storage of rank 0, and not in the next step.
  StorageWait storage("the metrics");
  if (connection.peers->agree(lostFolder) != 0)
    savedStep = -1;
  lostFolder = false;
}

void Training::save(bool last) {
  prepareSave();
  if (savedStep == current)
    return;
  Position position = positionAt(current, currentRow);
  if (last || !background)
    return saveNow(position, last);
  double start = profileNow();
  background->start(*state, [this, position](const StateReader &copy) {
    saveCheckpoint(program, rendezvous.rank, copy, *connection.writers, options.out,
                   options.checkpoint, options.fileBytes, options.keep, position);
  });
  copying += profileNow() - start;
  startedStep = current;
  ++backgroundSaves;
}

void Training::saveNow(Position position, bool last) {
  try {
    saveCheckpoint(program, rendezvous.rank, *state, *connection.peers, options.out,
                   options.checkpoint, options.fileBytes, options.keep, position);
    savedStep = position.step;
    failedSaves = 0;
  } catch (const Error &error) {
    noteFailedSave(error, last);
  }
}

void Training::finishSave() {
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
    noteFailedSave(error, /*last=*/false);
  }
}

void Training::noteFailedSave(const Error &error, bool last) {
  if (error.code != SHALE_EXIT_IO || last || ++failedSaves >= 3)
    throw error;
  warn("%s; training goes on without this checkpoint", error.what());
}

std::optional<int> Training::checkAndSave(bool last) {
  if (std::optional<int> code = checkReplicas())
    return code;
  save(last);
  return std::nullopt;
}

std::string Training::savesText() const {
  return format("%lld while training went on: the copies took %.2f s, and %lld time%s training "
                "waited for the save before, %.2f s in all",
                (long long)backgroundSaves, copying, (long long)delayedSaves,
                delayedSaves == 1 ? "" : "s", delay);
}

void Training::tellSaves() const {
  if (rendezvous.rank == 0 && backgroundSaves > 0)
    printf("saves: %s\n", savesText().c_str());
  if (rendezvous.rank == 0 && norms.skipped > 0)
    printf("spikes: %lld of %lld updates were left out\n", (long long)norms.skipped,
           (long long)current);
}

} // namespace shale::rt
