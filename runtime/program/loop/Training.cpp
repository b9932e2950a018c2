// A run before and after its steps: data, weights, logs, files of the run, reports. Steps.cpp has
// the loop over steps.
#include "runtime/program/loop/Training.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Export.h"
#include "runtime/checkpoint/Given.h"
#include "runtime/checkpoint/Initial.h"
#include "runtime/checkpoint/Kept.h"
#include "runtime/checkpoint/Layout.h"
#include "runtime/checkpoint/Trial.h"
#include "runtime/comm/Cores.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/core/Profile.h"
#include "runtime/core/StorageWait.h"
#include "runtime/core/Threads.h"
#include "runtime/core/Trace.h"
#include "runtime/data/Inputs.h"
#include "runtime/device/host/Host.h"
#include "runtime/metrics/Report.h"
#include "runtime/program/flags/Limits.h"
#include "runtime/program/launch/SameRun.h"
#include "runtime/program/launch/Signals.h"
#include "runtime/program/reports/Describe.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <unistd.h>

namespace shale::rt {

Training::Training(const ShaleProgram &program, const Options &options,
                   const Rendezvous &rendezvous)
    : program(program), options(options), rendezvous(rendezvous) {
  setSpeaker(rendezvous.rank, rendezvous.worldSize);
  this->rendezvous.folder = realPath(options.out);
  this->rendezvous.interface = options.interface;
  this->rendezvous.insecure = options.insecure;
  self.program = &program;
  self.rank = rendezvous.rank;
  self.worldSize = rendezvous.worldSize;
  self.coordinates = coordinatesOf(program, rendezvous.rank);
  if (Counted counted = countedOf(program); !counted.isTokens)
    samplesPerStep = counted.perStep;
}

void Training::openData() {
  if (!options.evalOnly) {
    data.emplace(program, rendezvous.rank, dataOptions(options, false));
    needMicroBatches(*data, options, program.accumulate);
    compareWithCheckpoint();
  }
  if (options.evalOnly || !options.evalData.empty())
    evalData.emplace(program, rendezvous.rank, dataOptions(options, true));
  introduceData();
}

void Training::compareWithCheckpoint() {
  DataChange change;
  if (rendezvous.rank == 0) {
    dataFiles = data->files();
    if (!dataBefore.empty())
      change = compareData(dataBefore, dataFiles);
    if (!change.renamed.empty())
      warn("the data has other names than at the checkpoint: %s", change.renamed.c_str());
  }
  bool accepts = options.dataChanged == "accept";
  if (accepts && !change.other.empty())
    warn("the data is not that of the checkpoint: %s; the run goes on with row %lld of its order",
         change.other.c_str(), (long long)currentRow);
  if (connection.peers->agree(!accepts && !change.other.empty()) == 0)
    return;
  if (rendezvous.rank == 0)
    fail(
        SHALE_EXIT_DATA,
        "the data is not that of the checkpoint: %s. The rest of the run would read rows in another "
        "order, and some of them twice or never. Restore the files, or pass --data-changed accept",
        change.other.c_str());
  throw Error(SHALE_EXIT_DATA, ""); // rank 0 reports it
}

void Training::introduceData() {
  if (rendezvous.rank != 0)
    return;
  if (std::string text = data ? data->describe() : ""; !text.empty())
    printf("data: %s; one pass is %.4g steps, the run has %lld\n", text.c_str(),
           data->stepsInPass(program.accumulate), (long long)options.steps);
  if (std::string text = evalData ? evalData->describe() : ""; !text.empty())
    printf("evaluation data: %s\n", text.c_str());
  fflush(stdout);
}

void Training::placeValues() {
  if (program.constant_bytes > 0 && !device->sharesMemory()) {
    constants = device->allocate(SHALE_SPACE_DEVICE, program.constant_bytes, "constants");
    device->write(constants->data(), program.constants, program.constant_bytes);
  }
  self.constants = constants ? constants->data() : program.constants;
  auto aligned = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
  std::vector<int64_t> offsets;
  for (int i = 0; i < program.input_count; ++i) {
    offsets.push_back(hyperOffset);
    hyperOffset +=
        aligned(elementsOf(program.inputs[i]) * sizeOf(static_cast<Dtype>(program.inputs[i].type)));
  }
  bool onHost = program.host_state_bytes > 0 || program.host_arena_bytes > 0;
  values.emplace(*device, hyperOffset + program.hyper_count * int64_t(sizeof(float)), onHost);
  auto addresses = [&](char *start) {
    std::vector<void *> list;
    for (int64_t offset : offsets)
      list.push_back(start + offset);
    return list;
  };
  for (int slot = 0; slot < values->count(); ++slot)
    inputs[slot] = addresses(values->at(slot));
  inputsOfFunctions = addresses(values->compiled());
  int32_t most = std::max(program.metric_count, program.eval_metric_count);
  results.emplace(*device, most * int64_t(sizeof(float)));
  if (char *mirror = values->mirror()) {
    inputsOnHost = addresses(mirror);
    self.hostInputs = inputsOnHost.data();
    self.hostHyper = reinterpret_cast<float *>(mirror + hyperOffset);
  }
  for (int h = 0; h < program.hyper_count; ++h)
    if (program.hyper[h].source == SHALE_HYPER_PREVIOUS_ENABLE)
      previousEnable = h;
  bool staged = options.comm == "staged" || !device->hasCollectives();
  bool hostTakesPart = staged && rendezvous.worldSize > 1;
  timesRanks = hostTakesPart;
  // The limit of a step's norm follows from the norms of the steps before.
  ahead = previousEnable >= 0 && options.skipSpikes == 0 && device->runsAhead() && !hostTakesPart &&
          findName(program.metrics, program.metric_count, "enable") >= 0;
}

void Training::call(ShaleFunction function) {
  bool observed = self.observer || tracing() || profiling();
  device->call(function, observed, [this, function] { callDirectly(function); });
}

void Training::callDirectly(ShaleFunction function) {
  function(&self, state->deviceData(), arena->data(), inputsOfFunctions.data(),
           reinterpret_cast<float *>(values->compiled() + hyperOffset),
           reinterpret_cast<float *>(results->compiled()));
}

/// Restores weights and position from a checkpoint, or reads the initial weights.
void Training::restore() {
  StorageWait storage("the reading of the state");
  Position position;
  if (loadCheckpoint(program, rendezvous.rank, *state, *connection.peers, options.out,
                     options.resume, position)) {
    current = savedStep = position.step;
    updates = position.updates;
    firstRow = currentRow = position.row;
    dataBefore = position.data;
    if (options.skipSpikes > 0)
      norms = position.norms;
    if (!options.seedGiven)
      options.seed = position.seed;
    int64_t most = connection.peers->agree(position.bytesRead);
    if (rendezvous.rank == 0)
      printf("resumed from %s at step %lld; a rank read up to %lld bytes of its tensors\n",
             position.folder.c_str(), (long long)current, (long long)most);
    if (!options.traceFile.empty() && current > options.traceLast)
      fail(
          SHALE_EXIT_USAGE,
          "--trace: step %lld is already done, and the run continues with step %lld: trace later steps",
          (long long)options.traceLast, (long long)current);
    return;
  }
  if (rendezvous.rank == 0 && options.evalOnly && options.init.empty())
    printf("no checkpoint in '%s': evaluating the model's initial weights\n", options.out.c_str());
  if (rendezvous.rank == 0 && !options.evalOnly)
    storeKept(program, initOptions(options), options.out);
  readInitial(program, initOptions(options), rendezvous.rank, *state);
}

/// Uses OMP_NUM_THREADS if it is set; else ranks share the cores of their host.
void Training::shareThreads() {
  coreShare = shareOfCores(*connection.peers, rendezvous.rank, rendezvous.worldSize);
  if (!std::getenv("OMP_NUM_THREADS"))
    setHostThreads(coreShare);
  checkThreadsStart(hostThreads() - 1);
  onThreads([](int64_t, int64_t) { useCrashStack(); });
}

void Training::introduce() {
  char host[256] = "?";
  gethostname(host, sizeof(host) - 1);
  std::vector<std::string> hosts = connection.peers->gather(host);
  if (rendezvous.rank != 0)
    return;
  std::map<std::string, std::string> ranks;
  for (size_t r = 0; r < hosts.size(); ++r)
    ranks[hosts[r]] += (ranks[hosts[r]].empty() ? "" : " ") + std::to_string(r);
  printf("%s: %d rank%s on %zu host%s, mesh %s, shard %s, %d thread%s per rank\n",
         baseName(program.model).c_str(), rendezvous.worldSize,
         rendezvous.worldSize == 1 ? "" : "s", ranks.size(), ranks.size() == 1 ? "" : "s",
         meshText(program).c_str(), program.strategy, hostThreads(), hostThreads() == 1 ? "" : "s");
  // torchrun sets OMP_NUM_THREADS to 1 if it is not set.
  if (hostThreads() < coreShare)
    printf("  OMP_NUM_THREADS is %d thread%s per rank, but a rank's share of the "
           "cores is %d: set OMP_NUM_THREADS to that\n",
           hostThreads(), hostThreads() == 1 ? "" : "s", coreShare);
  for (const auto &[name, list] : ranks)
    printf("  %s: rank %s, device %s\n", name.c_str(), list.c_str(), device->describe().c_str());
  fflush(stdout);
}

/// Opens metrics.jsonl and, with --tensorboard, the event file.
void Training::openLogs() {
  if (rendezvous.rank != 0)
    return;
  log.emplace(options.out + "/metrics.jsonl", current);
  if (options.tensorboard)
    board.emplace(options.out, current);
}

/// Makes the output folder again if it was removed or renamed during the run.
void Training::keepFolder() {
  if (!folder || folder->isThere())
    return;
  lostFolder = true;
  folder.reset();
  log.reset();
  board.reset();
  try {
    folder.emplace(options);
    openLogs();
    if (!options.init.empty())
      storeKept(program, initOptions(options), options.out);
  } catch (const Error &error) {
    fail(SHALE_EXIT_IO, "'%s' was removed during the run, and cannot be made again: %s",
         options.out.c_str(), error.what());
  }
  warn("'%s' or the lock in it was removed during the run, which goes on in a new folder of that "
       "name: earlier metrics and checkpoints may be lost",
       options.out.c_str());
}

void Training::writeModel() {
  ExportOptions form;
  form.folder = options.out;
  form.fileBytes = options.fileBytes;
  std::vector<std::string> missing;
  if (rendezvous.rank == 0)
    form.kept = findKept(program, options.out, missing);
  std::vector<WrittenFile> files =
      exportTensors(program, rendezvous.rank, *state, *connection.peers, form);
  if (rendezvous.rank != 0)
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
void Training::writeRanks(const std::string &path, const std::string &own) {
  std::vector<std::string> ranks = connection.peers->gather(own);
  if (rendezvous.rank != 0)
    return;
  std::string text;
  for (const std::string &one : ranks)
    text += (text.empty() ? "[" : ",\n ") + one;
  replaceFile(path, text + "]\n");
}

void Training::tellMemory() {
  int64_t used = connection.peers->agree(residentPeakBytes());
  if (rendezvous.rank != 0)
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

std::string Training::slowestRank() const {
  return rankTimes.summary([&](int rank) { return connection.peers->nameOf(rank); });
}

void Training::report(const char *end) {
  if (rendezvous.rank != 0)
    return;
  log->finish();
  if (board)
    board->finish();
  ReportFacts facts;
  Counted counted = countedOf(program);
  facts.title = baseName(program.model);
  facts.rows = {{"end", format("%s, at step %lld of %lld", end, (long long)current,
                               (long long)options.steps)},
                {"ranks", format("%d, mesh %s, shard %s", rendezvous.worldSize,
                                 meshText(program).c_str(), program.strategy)},
                {"optimizer", program.optimizer},
                {"data", options.data},
                {std::string(counted.unit()) + " per step", std::to_string(counted.perStep)}};
  facts.unit = counted.unit();
  if (program.tokens_per_step > 0)
    facts.unitsPerToken = double(counted.perStep) / double(program.tokens_per_step);
  if (backgroundSaves > 0)
    facts.rows.emplace_back("saves", savesText());
  if (std::string text = slowestRank(); !text.empty())
    facts.rows.emplace_back("slowest rank", text);
  if (options.skipSpikes > 0)
    facts.rows.emplace_back("updates left out as spikes", std::to_string(norms.skipped));
  try {
    writeReport(options.out + "/metrics.jsonl", options.out + "/report.html", facts);
  } catch (const Error &error) {
    warn("%s", error.what()); // not a reason for the run to fail
  }
}

int Training::run() {
  int code = SHALE_EXIT_OK;
  try {
    code = runToEnd();
  } catch (const Error &error) {
    if (prometheus)
      prometheus->finish();
    // A save in flight is of a good state. Without a peer it cannot become complete.
    try {
      if (error.code != SHALE_EXIT_PEER)
        finishSave();
      if (rendezvous.worldSize == 1 && inFlight == 0)
        saveAfterFailure(current, currentRow);
    } catch (const Error &second) {
      complain("error", second.what());
    }
    folder.reset(); // this object is never destroyed, and the lock may be a file
    throw;
  }
  if (prometheus)
    prometheus->finish();
  connection.collectives->withdrawMemory();
  connection.peers->leave();
  folder.reset();
  return code;
}

int Training::runToEnd() {
  watchSignals(rendezvous.rank == 0);
  setPeerFailureCode(exitInsteadOfPeerFailure);
  reportCrashes(&self.node);
  if (rendezvous.rank == 0 && !options.evalOnly) {
    folder.emplace(options);
    if (!options.prometheus.empty())
      prometheus.emplace(options.prometheus, options.out, options.steps);
  }
  device = openDevice(program, deviceOptions(options, rendezvous));
  self.device = device.get();
  connection = connect(program, rendezvous, options.commTimeout, *device, options.comm == "staged",
                       mayWriteInBackground(), [&](Peers &peers) {
                         checkSameRun(program, options, rendezvous.rank, peers);
                       });
  if (!options.evalOnly) {
    StorageWait storage("the trial of a save");
    trySave(rendezvous.rank, *connection.peers, options.out, options.steps);
  }
  self.collectives = connection.collectives.get();
  connection.collectives->watchNode(&self.node);
  shareThreads();
  introduce();
  state.emplace(program, *device);
  arena = device->allocate(SHALE_SPACE_DEVICE, program.arena_bytes, "the arena");
  hostArena = device->allocate(SHALE_SPACE_HOST, program.host_arena_bytes, "the host's arena");
  self.hostState = state->hostData();
  self.hostArena = hostArena->data();
  placeValues();
  connection.collectives->announceMemory({&state->deviceMemory(), arena.get(), &results->memory()});
  if (!options.reportBuffers.empty())
    watch.emplace(
        program, rendezvous.rank,
        WatchedBlocks{state->deviceData(), state->hostData(), arena->data(), hostArena->data()},
        *device, *connection.collectives);
  if (options.checkReplicas > 0 && rendezvous.worldSize > 1)
    replicas.emplace(program, rendezvous.rank);
  planSaves();
  restore();
  openData();
  if (!options.evalOnly)
    recordSignals();
  if (int code = chooseProducts()) {
    connection.peers->barrier();
    return code;
  }
  if (options.evalOnly)
    return evaluateOnly();
  openLogs();
  bool ran = current < options.end();
  if (!ran && rendezvous.rank == 0)
    printf("nothing to train: the state is at step %lld of %lld\n", (long long)current,
           (long long)options.end());
  if (std::optional<int> code = train())
    return *code;
  progress.clear();
  if (watch)
    writeRanks(options.reportBuffers, watch->report());
  if (!options.reportDevice.empty())
    writeRanks(options.reportDevice, device->reportMemory());
  StorageWait storage("the end of the run");
  if (std::optional<int> code = checkAndSave(true))
    return *code;
  report("done");
  tellSaves();
  if (rendezvous.rank == 0)
    printf("checkpoint: %s/checkpoints\n", options.out.c_str());
  writeModel();
  if (rendezvous.rank == 0 && !profileTable().empty())
    printf("%s", profileTable().c_str());
  tellMemory();
  if (std::string text = slowestRank(); !text.empty())
    printf("slowest rank: %s\n", text.c_str());
  // A run that --stop-after ends may still find a loss scale that fits.
  if (current > 0 && current >= options.steps && updates == 0)
    return endUnchanged(ran);
  connection.peers->barrier();
  return SHALE_EXIT_OK;
}

} // namespace shale::rt
