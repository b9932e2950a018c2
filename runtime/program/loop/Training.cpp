// A run before and after its steps: device, state, data, and the files of its end.
#include "runtime/program/loop/Training.h"
#include "runtime/checkpoint/Export.h"
#include "runtime/checkpoint/Given.h"
#include "runtime/checkpoint/Initial.h"
#include "runtime/checkpoint/Kept.h"
#include "runtime/checkpoint/Trial.h"
#include "runtime/comm/Cores.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/core/Profile.h"
#include "runtime/core/StorageWait.h"
#include "runtime/core/Threads.h"
#include "runtime/device/host/Host.h"
#include "runtime/program/flags/Check.h"
#include "runtime/program/flags/Limits.h"
#include "runtime/program/launch/SameRun.h"
#include "runtime/program/launch/Signals.h"
#include "runtime/program/loop/MatmulChooser.h"
#include "runtime/program/reports/Describe.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <unistd.h>

namespace shale::rt {

/// Uses OMP_NUM_THREADS if it is set; else ranks share the cores of their host. Returns a rank's
/// share of the cores.
static int shareThreads(const RunSetup &setup) {
  int share = shareOfCores(setup.peers(), setup.rank(), setup.rendezvous.worldSize);
  if (!std::getenv("OMP_NUM_THREADS"))
    setHostThreads(share);
  checkThreadsStart(hostThreads() - 1);
  onThreads([](int64_t, int64_t) { useCrashStack(); });
  return share;
}

/// Prints the model, the ranks and their hosts on rank 0. `coreShare`: a rank's share of the cores.
static void introduce(const RunSetup &setup, const Device &device, int coreShare) {
  const ShaleProgram &program = setup.program;
  char host[256] = "?";
  gethostname(host, sizeof(host) - 1);
  std::vector<std::string> hosts = setup.peers().gather(host);
  if (!setup.isFirst())
    return;
  std::map<std::string, std::string> ranks;
  for (size_t r = 0; r < hosts.size(); ++r)
    ranks[hosts[r]] += (ranks[hosts[r]].empty() ? "" : " ") + std::to_string(r);
  printf("%s: %d rank%s on %zu host%s, mesh %s, shard %s, %d thread%s per rank\n",
         baseName(program.model).c_str(), setup.rendezvous.worldSize,
         setup.rendezvous.worldSize == 1 ? "" : "s", ranks.size(), ranks.size() == 1 ? "" : "s",
         meshText(program).c_str(), program.strategy, hostThreads(), hostThreads() == 1 ? "" : "s");
  // torchrun sets OMP_NUM_THREADS to 1 if it is not set.
  if (hostThreads() < coreShare)
    printf("  OMP_NUM_THREADS is %d thread%s per rank, but a rank's share of the "
           "cores is %d: set OMP_NUM_THREADS to that\n",
           hostThreads(), hostThreads() == 1 ? "" : "s", coreShare);
  for (const auto &[name, list] : ranks)
    printf("  %s: rank %s, device %s\n", name.c_str(), list.c_str(), device.describe().c_str());
  fflush(stdout);
}

/// Writes the weights at the end of a run. Every rank calls it.
static void writeModel(const RunSetup &setup, const State &state) {
  const Options &options = setup.options;
  ExportOptions form;
  form.folder = options.out;
  form.fileBytes = options.fileBytes;
  std::vector<std::string> missing;
  if (setup.isFirst())
    form.kept = findKept(setup.program, options.out, missing);
  std::vector<WrittenFile> files =
      exportTensors(setup.program, setup.rank(), state, setup.peers(), form);
  if (!setup.isFirst())
    return;
  copyModelFiles(options.init, options.out);
  if (files.size() == 1)
    printf("weights: %s/%s\n", options.out.c_str(), files[0].name.c_str());
  else
    printf("weights: %s/%s and %zu files\n", options.out.c_str(), files.back().name.c_str(),
           files.size() - 1);
  if (!missing.empty()) {
    std::string list;
    for (size_t i = 0; i < std::min<size_t>(missing.size(), 8); ++i)
      list += (i ? ", " : "") + missing[i];
    if (missing.size() > 8)
      list += format(" and %zu more", missing.size() - 8);
    printf("  without entries of the model's state_dict that the ONNX file does not "
           "contain (%s): load with strict=False, or start with --init\n",
           list.c_str());
  }
}

/// Writes one file with a JSON object per rank.
static void writeRanks(const RunSetup &setup, const std::string &path, const std::string &own) {
  std::vector<std::string> ranks = setup.peers().gather(own);
  if (!setup.isFirst())
    return;
  std::string text;
  for (const std::string &one : ranks)
    text += (text.empty() ? "[" : ",\n ") + one;
  replaceFile(path, text + "]\n");
}

/// Prints the memory that was planned and the most that a rank took, on rank 0.
static void tellMemory(const RunSetup &setup) {
  const ShaleProgram &program = setup.program;
  int64_t used = setup.peers().agree(residentPeakBytes());
  if (!setup.isFirst())
    return;
  bool oneMemory = !program.device_code;
  int64_t planned = plannedBytes(program, oneMemory, true);
  int64_t fixed = planned - plannedBytes(program, oneMemory, false);
  std::string text =
      format("memory%s: %s planned per rank, %s used at most", oneMemory ? "" : " of the host",
             mebibytes(planned).c_str(), mebibytes(used).c_str());
  if (fixed > 0)
    text += format("; %s of the plan are upper bounds of fixed parts (process, stacks, saves)",
                   mebibytes(fixed).c_str());
  if (!oneMemory)
    text += format("; %s planned on the device",
                   mebibytes(plannedBytes(program, true, true) - planned).c_str());
  printf("%s\n", text.c_str());
}

Training::Training(const ShaleProgram &program, const Options &options,
                   const Rendezvous &rendezvous)
    : setup{program, options, rendezvous, {}} {
  setSpeaker(rendezvous.rank, rendezvous.worldSize);
  setup.rendezvous.folder = realPath(options.out);
  setup.rendezvous.interface = options.interface;
  setup.rendezvous.insecure = options.insecure;
  self.program = &program;
  self.rank = rendezvous.rank;
  self.worldSize = rendezvous.worldSize;
  self.coordinates = coordinatesOf(program, rendezvous.rank);
}

int Training::run() {
  int code = SHALE_EXIT_OK;
  try {
    code = runToEnd();
  } catch (const Error &error) {
    if (logs)
      logs->finishPrometheus();
    // A save in flight is of a good state. Without a peer it cannot become complete.
    try {
      if (error.code != SHALE_EXIT_PEER && saver)
        saver->finish();
      if (loop)
        loop->saveAfterError();
    } catch (const Error &second) {
      complain("error", second.what());
    }
    if (logs)
      logs->releaseFolder(); // this object is never destroyed, and the lock may be a file
    throw;
  }
  logs->finishPrometheus();
  setup.connection.collectives->withdrawMemory();
  setup.peers().leave();
  logs->releaseFolder();
  return code;
}

void Training::join() {
  const Options &options = setup.options;
  device = openDevice(setup.program, deviceOptions(options, setup.rendezvous));
  self.device = device.get();
  setup.connection =
      connect(setup.program, setup.rendezvous, options.commTimeout, *device,
              options.comm == "staged", CheckpointSaver::mayWriteInBackground(options),
              [&](Peers &peers) { checkSameRun(setup.program, options, setup.rank(), peers); });
  if (!options.evalOnly) {
    StorageWait storage("the trial of a save");
    trySave(setup.rank(), setup.peers(), options.out, options.steps);
  }
  Collectives &collectives = *setup.connection.collectives;
  self.collectives = &collectives;
  collectives.watchNode(&self.node);
  int coreShare = shareThreads(setup);
  introduce(setup, *device, coreShare);
  loaded.emplace(self);
  collectives.announceMemory(loaded->ofCollectives());
  saver.emplace(setup, *loaded, *logs);
}

Position Training::restore() {
  const ShaleProgram &program = setup.program;
  Options &options = setup.options;
  StorageWait storage("the reading of the state");
  Position begin, found;
  if (loadCheckpoint(program, setup.rank(), loaded->state(), setup.peers(), options.out,
                     options.resume, found)) {
    begin.step = found.step;
    begin.updates = found.updates;
    begin.row = found.row;
    begin.data = found.data;
    saver->noteSaved(found.step);
    if (options.skipSpikes > 0)
      begin.norms = found.norms;
    if (!options.seedGiven)
      options.seed = found.seed;
    int64_t most = setup.peers().agree(found.bytesRead);
    if (setup.isFirst())
      printf("resumed from %s at step %lld; a rank read up to %lld bytes of its tensors\n",
             found.folder.c_str(), (long long)begin.step, (long long)most);
    if (!options.traceFile.empty() && begin.step > options.traceLast)
      fail(
          SHALE_EXIT_USAGE,
          "--trace: step %lld is already done, and the run continues with step %lld: trace later steps",
          (long long)options.traceLast, (long long)begin.step);
    return begin;
  }
  if (setup.isFirst() && options.evalOnly && options.init.empty())
    printf("no checkpoint in '%s': evaluating the model's initial weights\n", options.out.c_str());
  if (setup.isFirst() && !options.evalOnly)
    storeKept(program, initOptions(options), options.out);
  readInitial(program, initOptions(options), setup.rank(), loaded->state());
  return begin;
}

int Training::runToEnd() {
  const Options &options = setup.options;
  watchSignals(setup.isFirst());
  setPeerFailureCode(exitInsteadOfPeerFailure);
  reportCrashes(&self.node);
  logs.emplace(setup);
  join();
  Position begin = restore();
  data.emplace(setup, begin);
  if (!options.evalOnly)
    recordSignals();
  // An evaluation writes no files; a run that is over has no step to time for.
  bool trains = !options.evalOnly && begin.step < options.end();
  if (int code = MatmulChooser(setup, *loaded, logs->progress()).choose(trains)) {
    setup.peers().barrier();
    return code;
  }
  if (options.evalOnly)
    return LossEvaluator(setup, *loaded, *data->evaluation()).report(begin.step);
  logs->open(begin.step);
  if (!trains && setup.isFirst())
    printf("nothing to train: the state is at step %lld of %lld\n", (long long)begin.step,
           (long long)options.end());
  loop.emplace(setup, *loaded, *data, *logs, *saver, begin);
  if (std::optional<int> code = loop->train())
    return *code;
  return finish();
}

int Training::finish() {
  const Options &options = setup.options;
  logs->progress().clear();
  if (const Watch *watch = loop->buffers())
    writeRanks(setup, options.reportBuffers, watch->report());
  if (!options.reportDevice.empty())
    writeRanks(setup, options.reportDevice, device->reportMemory());
  StorageWait storage("the end of the run");
  if (std::optional<int> code = loop->checkAndSave(true))
    return *code;
  loop->report("done");
  loop->tellSaves();
  if (setup.isFirst())
    printf("checkpoint: %s/checkpoints\n", options.out.c_str());
  writeModel(setup, loaded->state());
  if (setup.isFirst() && !profileTable().empty())
    printf("%s", profileTable().c_str());
  tellMemory(setup);
  if (std::string text = loop->slowestRank(); !text.empty())
    printf("slowest rank: %s\n", text.c_str());
  if (loop->isUnchanged())
    return loop->endUnchanged();
  setup.peers().barrier();
  return SHALE_EXIT_OK;
}

} // namespace shale::rt
