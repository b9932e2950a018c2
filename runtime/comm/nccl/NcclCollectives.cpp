// Collectives of compiled code over NCCL. Per axis of the mesh, gathers have a communicator and a
// stream, and reductions have another one of each. A collective waits for the compute stream at its
// start, and the compute stream waits for it where compiled code does.
//
// Communicators run beside one another. All ranks start collectives in the same order, and NCCL
// launches them in that order (Library.cpp), so that ranks do not wait for each other in a circle.
//
// A captured call becomes a graph. Its events exist only in the graph, so a node after each
// collective copies a flag to pinned memory, which the watchdog reads.
#include "runtime/comm/nccl/NcclCollectives.h"
#include "runtime/core/Rank.h"

#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

namespace shale::rt {

using cuda::CudaDevice;

/// Returns the number of communicators of a program: one for the gathers of an axis, one for its
/// reductions.
static size_t communicatorsOf(const ShaleProgram &program) {
  std::set<std::pair<int32_t, bool>> used;
  for (int32_t s = 0; s < program.site_count; ++s)
    used.insert({program.sites[s].axis, gathers(program.sites[s].kind)});
  return used.size();
}

NcclCollectives::NcclCollectives(const ShaleProgram &program, int rank, Peers &peers,
                                 CudaDevice &device, double timeout)
    : program(program), peers(peers), cu(cuda::driver()), library(nccl()), device(device),
      timeout(timeout), axes(axisTotal(program)), sites(program.site_count),
      sent(program.site_count) {
  for (Site &site : sites)
    for (CUevent *event : {&site.ready, &site.done})
      cuda::require(cu.cuEventCreate(event, CU_EVENT_DISABLE_TIMING), "create an event");
  cuda::require(cu.cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING), "create an event");
  flags = device.allocate(SHALE_SPACE_HOST, program.site_count * 4, "flags of collectives");
  scratch = device.allocate(SHALE_SPACE_DEVICE, scratchBytes(program), "receive scratch");
  makeConstants();
  if (communicatorsOf(program) > 1)
    orderLaunches();
  for (int a = 0; a < axisTotal(program); ++a)
    join(a, rank);
  for (int a = 0; a < axisTotal(program); ++a)
    warmUp(a);
  if (std::any_of(program.sites, program.sites + program.site_count,
                  [](const ShaleSite &site) { return sumsByProducts(site.kind, site.type); })) {
    cuda::require(cu.cuStreamCreate(&sums, CU_STREAM_NON_BLOCKING), "create a stream");
    for (Half &half : halves)
      for (CUevent *event : {&half.received, &half.summed})
        cuda::require(cu.cuEventCreate(event, CU_EVENT_DISABLE_TIMING), "create an event");
  }
  watchdog = std::thread([this] { watchOver(); });
  guardian = std::thread([this] { guard(); });
  device.setFollower(this);
}

NcclCollectives::~NcclCollectives() {
  device.setFollower(nullptr);
  {
    std::lock_guard<std::mutex> lock(mutex);
    ending = true;
  }
  ended.notify_all();
  watchdog.join();
  {
    std::lock_guard<std::mutex> lock(guardMutex);
    guardEnding = true;
  }
  guardEnded.notify_all();
  guardian.join();
}

/// Writes the constants. Every stream may read them afterwards.
void NcclCollectives::makeConstants() {
  int64_t largest = 1;
  for (int a = 0; a < axisTotal(program); ++a)
    largest = std::max(largest, axisSize(program, a));
  rowBytes = (2 * largest + 63) / 64 * 64;
  constants = device.allocate(SHALE_SPACE_DEVICE, 2 * rowBytes + 4 + 4 * program.site_count,
                              "constants of collectives");
  std::vector<uint16_t> values(constants->size() / 2, 0);
  std::fill_n(values.begin(), largest, 0x3f80);                // 1 in bf16
  std::fill_n(values.begin() + rowBytes / 2, largest, 0x3c00); // 1 in f16
  uint32_t flag = 1;
  std::memcpy(values.data() + rowBytes, &flag, sizeof(flag));
  device.write(constants->data(), values.data(), constants->size());
}

/// Registers the blocks and the scratch buffer with every communicator, or, if that fails on any
/// rank, nothing on all ranks: NCCL does not define collectives of which some ranks are registered.
void NcclCollectives::announceMemory(const std::vector<const Memory *> &blocks) {
  std::vector<const Memory *> all = blocks;
  all.push_back(scratch.get());
  ncclResult_t result = ncclSuccess;
  for (const Axis &axis : axes)
    for (ncclComm_t comm : {axis.gathers.comm, axis.reductions.comm})
      for (const Memory *block : all)
        if (comm && block->size() > 0 && result == ncclSuccess)
          result = registration.add(comm, *block);
  if (peers.agree(result) == ncclSuccess)
    return;
  registration.clear();
  std::string own = result == ncclSuccess ? "" : describeFailure(result);
  std::vector<std::string> texts = peers.gather(own);
  for (size_t rank = 0; rank < texts.size(); ++rank)
    if (!texts[rank].empty())
      return warn(
          "NCCL registers no buffers, because that failed on rank %zu: %s; collectives copy "
          "through NCCL's own buffers, with the same results",
          rank, texts[rank].c_str());
}

void NcclCollectives::must(ncclResult_t result, int32_t site) const {
  if (result == ncclSuccess)
    return;
  const ShaleSite &what = program.sites[site];
  die(SHALE_EXIT_PEER,
      format("%s '%s' failed: NCCL: %s", kindName(static_cast<ShaleCollectiveKind>(what.kind)),
             what.name, describeFailure(result).c_str()));
}

void NcclCollectives::start(int32_t index, ShaleCollectiveKind kind, const void *send, void *recv,
                            int64_t count, ShaleType type) {
  const ShaleSite &what = program.sites[index];
  const Lane &lane = laneOf(what.axis, kind);
  lastSite = index;
  order(lane.stream, sites[index].ready, device.computeStream());
  bucket.push_back(
      {index, kind, static_cast<const char *>(send), static_cast<char *>(recv), count, type});
  if (static_cast<int32_t>(bucket.size()) < std::max(what.bucket_size, 1))
    return;
  post(axes[what.axis], lane);
  bucket.clear();
}

/// Makes later work of a stream wait for the work of another one, by way of an event.
void NcclCollectives::order(CUstream stream, CUevent event, CUstream other) {
  cuda::must(cu.cuEventRecord(event, other), "record an event");
  cuda::must(cu.cuStreamWaitEvent(stream, event, 0), "wait for an event");
}

/// Enqueues the collectives of a bucket as one group.
void NcclCollectives::post(const Axis &axis, const Lane &lane) {
  enter(bucket.front().site);
  bool apart = sumsByProducts(bucket.front().kind, bucket.front().type);
  if (!apart)
    must(library.ncclGroupStart(), bucket.front().site);
  CUstream end = lane.stream;
  for (const Request &request : bucket)
    end = enqueue(axis, lane, request);
  if (!apart)
    must(library.ncclGroupEnd(), bucket.front().site);
  std::lock_guard<std::mutex> lock(mutex);
  entering.reset();
  for (const Request &request : bucket)
    cuda::must(cu.cuEventRecord(sites[request.site].done, end), "record an event");
  for (const Request &request : bucket) {
    if (capture) {
      capture->push_back(request.site);
      raiseFlag(request.site, end);
      continue;
    }
    if (runs.empty())
      ranSince = Clock::now();
    runs.push_back({request.site, count(request.site), markDone(end)});
  }
  if (capture)
    for (CUstream stream : {lane.stream, end})
      if (std::find(forked.begin(), forked.end(), stream) == forked.end())
        forked.push_back(stream);
}

/// Begins to watch a call of NCCL outside of graphs.
void NcclCollectives::enter(int32_t site) {
  if (capture)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  entering = Pending{site, number + 1, Clock::now()};
}

/// Counts a collective that is started, and returns its number.
int64_t NcclCollectives::count(int32_t site) {
  sent[site] += sites[site].bytes;
  Axis &axis = axes[program.sites[site].axis];
  axis.lastSite = site;
  return axis.lastNumber = ++number;
}

/// Records an event of its own, which the watchdog queries and puts back into `spareEvents`.
CUevent NcclCollectives::markDone(CUstream stream) {
  if (spareEvents.empty())
    cuda::must(cu.cuEventCreate(&spareEvents.emplace_back(), CU_EVENT_DISABLE_TIMING),
               "create an event");
  CUevent done = spareEvents.back();
  spareEvents.pop_back();
  cuda::must(cu.cuEventRecord(done, stream), "record an event");
  return done;
}

/// Sets the flag of a site when the work of a stream has reached this point.
void NcclCollectives::raiseFlag(int32_t site, CUstream stream) {
  cuda::must(cu.cuMemcpyDtoHAsync(flags->data() + 4 * site, reinterpret_cast<CUdeviceptr>(one()), 4,
                                  stream),
             "set a flag");
}

void NcclCollectives::beginCapture(ShaleFunction function) {
  capture = &graphs[function];
  for (Half &half : halves)
    half.used = false;
  if (program.site_count > 0)
    cuda::must(cu.cuMemcpyDtoHAsync(flags->data(), reinterpret_cast<CUdeviceptr>(zeros()),
                                    flags->size(), device.computeStream()),
               "clear flags");
}

/// The last flags are set after the compute stream has waited for the last collective, so the
/// streams join it here.
void NcclCollectives::endCapture() {
  for (CUstream stream : forked)
    order(device.computeStream(), joined, stream);
  forked.clear();
  for (Half &half : halves)
    half.used = false;
  capture = nullptr;
}

void NcclCollectives::launched(ShaleFunction function) {
  std::lock_guard<std::mutex> lock(mutex);
  const std::vector<int32_t> &ran = graphs[function];
  CUevent done = markDone(device.computeStream());
  if (launches.empty())
    follow();
  launches.push_back({ran, number + 1, done});
  for (int32_t site : ran)
    count(site);
}

/// Begins to follow the progress of a graph.
void NcclCollectives::follow() {
  completed = 0;
  progressed = Clock::now();
}

void NcclCollectives::wait(int32_t index) {
  cuda::must(cu.cuStreamWaitEvent(device.computeStream(), sites[index].done, 0),
             "wait for an event");
}

/// Returns the collective that was posted first of those that are not complete, or else the one
/// that is being posted.
std::optional<NcclCollectives::Pending> NcclCollectives::oldest() {
  std::optional<Pending> outside = oldestOutside(), inside = oldestOfGraph();
  if (!outside && !inside)
    return entering;
  if (!outside || !inside)
    return outside ? outside : inside;
  return outside->number < inside->number ? outside : inside;
}

std::optional<NcclCollectives::Pending> NcclCollectives::oldestOutside() {
  while (!runs.empty() && cu.cuEventQuery(runs.front().done) != CUDA_ERROR_NOT_READY) {
    spareEvents.push_back(runs.front().done);
    runs.pop_front();
    ranSince = Clock::now();
    if (runs.empty() && !launches.empty())
      follow();
  }
  if (runs.empty())
    return std::nullopt;
  return Pending{runs.front().site, runs.front().number, ranSince};
}

std::optional<NcclCollectives::Pending> NcclCollectives::oldestOfGraph() {
  while (!launches.empty() && cu.cuEventQuery(launches.front().done) != CUDA_ERROR_NOT_READY) {
    spareEvents.push_back(launches.front().done);
    launches.pop_front();
    follow();
  }
  if (launches.empty())
    return std::nullopt;
  const std::vector<int32_t> &ran = launches.front().sites;
  auto *done = reinterpret_cast<const volatile uint32_t *>(flags->data());
  auto isDone = [&](int32_t site) { return done[site] != 0; };
  size_t count = std::count_if(ran.begin(), ran.end(), isDone);
  if (count != completed) {
    completed = count;
    progressed = Clock::now();
  }
  auto first = std::find_if_not(ran.begin(), ran.end(), isDone);
  if (first == ran.end())
    return std::nullopt;
  return Pending{*first, launches.front().firstNumber + (first - ran.begin()), progressed};
}

/// Returns which ranks of an axis do not wait for a collective, as this one does.
std::string NcclCollectives::describeSilence(const Axis &axis) const {
  std::vector<int> silent = peers.findSilent(axis.others, patience());
  if (silent.empty())
    return "all its ranks wait for it: a GPU or the network is stuck";
  std::string list;
  for (int rank : silent)
    list += (list.empty() ? "" : ", ") + peers.nameOf(rank);
  return list + " did not reach it, or ended";
}

/// Returns kind, node and number of a collective, with an open parenthesis.
std::string NcclCollectives::describe(int32_t site, int64_t number) const {
  const ShaleSite &what = program.sites[site];
  return format("%s '%s' (number %lld of the run",
                kindName(static_cast<ShaleCollectiveKind>(what.kind)), what.name,
                (long long)number);
}

/// Ends the process if a communicator has an error. NCCL may find one while no collective is
/// pending, for example when it loses the connection to a rank.
void NcclCollectives::requireNoError(const std::optional<Pending> &late) const {
  for (size_t a = 0; a < axes.size(); ++a) {
    const Axis &axis = axes[a];
    ncclResult_t state = ncclSuccess;
    for (ncclComm_t comm : {axis.gathers.comm, axis.reductions.comm})
      if (comm && (state == ncclSuccess || state == ncclInProgress) &&
          library.ncclCommGetAsyncError(comm, &state) != ncclSuccess)
        state = ncclSuccess;
    if (state == ncclSuccess || state == ncclInProgress)
      continue;
    const char *error = library.ncclGetErrorString(state);
    if (late && program.sites[late->site].axis == static_cast<int32_t>(a))
      die(SHALE_EXIT_PEER, describe(late->site, late->number) + ") failed: NCCL: " + error);
    std::string last = axis.lastSite < 0 ? "there was no collective yet"
                                         : "the last collective is " +
                                               describe(axis.lastSite, axis.lastNumber) + ")";
    die(SHALE_EXIT_PEER, format("NCCL failed along axis '%s', where %s: %s", axisName(program, a),
                                last.c_str(), error));
  }
}

/// Ends the process if a collective takes too long, or if NCCL reports an error.
void NcclCollectives::watchOver() {
  if (cu.cuCtxSetCurrent(device.currentContext()) != CUDA_SUCCESS) {
    looked = -1;
    return;
  }
  std::unique_lock<std::mutex> lock(mutex);
  while (!ended.wait_for(lock, std::chrono::duration<double>(pause()), [&] { return ending; })) {
    std::optional<Pending> late = oldest();
    requireNoError(late);
    ++looked;
    if (late && std::chrono::duration<double>(Clock::now() - late->since).count() > timeout) {
      const ShaleSite &what = program.sites[late->site];
      die(SHALE_EXIT_PEER,
          format("%s, %lld bytes sent per rank) is not complete after %.1f s: %s",
                 describe(late->site, late->number).c_str(), (long long)what.sent_bytes, timeout,
                 describeSilence(axes[what.axis]).c_str()));
    }
  }
}

/// Ends the process if the watchdog is stuck. Counts its own pauses, since the time also passes
/// while a process is stopped.
void NcclCollectives::guard() {
  int64_t seen = 0, pauses = 0;
  std::unique_lock<std::mutex> lock(guardMutex);
  while (!guardEnded.wait_for(lock, std::chrono::duration<double>(pause()),
                              [&] { return guardEnding; })) {
    int64_t now = looked;
    if (now < 0) // there is no watchdog
      return;
    pauses = now == seen ? pauses + 1 : 0;
    seen = now;
    if (pauses * pause() <= timeout + 2 * patience())
      continue;
    std::string last = "; there was no collective yet";
    if (int32_t site = lastSite; site >= 0) {
      const ShaleSite &what = program.sites[site];
      last = format("; the collective that was started last is %s '%s': %s",
                    kindName(static_cast<ShaleCollectiveKind>(what.kind)), what.name,
                    describeSilence(axes[what.axis]).c_str());
    }
    die(SHALE_EXIT_PEER,
        format("the GPU's driver does not answer for %.1f s", pauses * pause()) + last);
  }
}

void NcclCollectives::awaitDiagnosis() {
  auto end = Clock::now() + std::chrono::duration<double>(patience() + 2 * pause());
  while (Clock::now() < end) {
    if (std::lock_guard<std::mutex> lock(mutex); !oldest()) // waits while the watchdog asks others
      return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

namespace {

/// Whether NCCL lets ranks share a GPU: from 2.30 on, if the environment asks for it.
bool ranksMayShareGpus() {
  const char *asked = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  int version = 0;
  return asked && std::string(asked) == "1" && nccl().ncclGetVersion(&version) == ncclSuccess &&
         version >= NCCL_VERSION(2, 30, 0);
}

/// Throws with exit code 69 if two ranks use one GPU and NCCL does not allow it.
void requireOwnGpus(int ranks, Peers &peers, const CudaDevice &device) {
  if (peers.agree(ranksMayShareGpus() ? 0 : 1) == 0)
    return;
  std::vector<std::string> all = peers.gather(device.uuid());
  int64_t found = 0; // 1 + first * ranks + second
  for (size_t second = 0; second < all.size() && !found; ++second)
    if (size_t first = std::find(all.begin(), all.end(), all[second]) - all.begin(); first < second)
      found = 1 + static_cast<int64_t>(first * ranks + second);
  found = peers.agree(found);
  if (found)
    fail(SHALE_EXIT_UNAVAILABLE,
         "ranks %lld and %lld use one GPU: start at most as many ranks per host as it has GPUs, or "
         "share them with --comm staged",
         (long long)((found - 1) / ranks), (long long)((found - 1) % ranks));
}

} // namespace

std::unique_ptr<Collectives> connectDevices(const ShaleProgram &program, int rank, Peers &peers,
                                            Device &device, double timeout) {
  requireOwnGpus(program.world_size, peers, static_cast<CudaDevice &>(device));
  return std::make_unique<NcclCollectives>(program, rank, peers, static_cast<CudaDevice &>(device),
                                           timeout);
}

} // namespace shale::rt
