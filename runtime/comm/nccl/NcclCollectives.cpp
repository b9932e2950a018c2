// Collectives of compiled code over NCCL. Per axis of the mesh, gathers have a communicator and a
// stream, and reductions have another one of each. A collective waits for the compute stream at its
// start, and the compute stream waits for it where compiled code does.
//
// Communicators run beside one another. All ranks start collectives in the same order, and NCCL
// launches them in that order (Library.cpp), so that ranks do not wait for each other in a circle.
#include "runtime/comm/nccl/NcclCollectives.h"
#include "runtime/comm/Connection.h"

#include <algorithm>
#include <cstdlib>

namespace shale::rt {

using cuda::CudaDevice;

NcclCollectives::NcclCollectives(const ShaleProgram &program, int rank, Peers &peers,
                                 CudaDevice &device, double timeout)
    : program(program), device(device), sites(program.site_count), constants(program, device),
      pending(program, device, constants), communicators(program, rank, peers, timeout),
      calls(program, device, communicators, constants),
      watchdog(program, communicators, pending, device.currentContext(), timeout) {
  for (Site &site : sites)
    for (CUevent *event : {&site.ready, &site.done})
      cuda::require(cu.cuEventCreate(event, CU_EVENT_DISABLE_TIMING), "create an event");
  device.setFollower(this);
}

NcclCollectives::~NcclCollectives() { device.setFollower(nullptr); }

void NcclCollectives::announceMemory(const std::vector<const Memory *> &blocks) {
  std::vector<const Memory *> all = blocks;
  all.push_back(&calls.receiveScratch());
  communicators.registerMemory(all);
}

void NcclCollectives::start(int32_t index, ShaleCollectiveKind kind, const void *send, void *recv,
                            int64_t count, ShaleType type) {
  const ShaleSite &what = program.sites[index];
  CUstream stream = communicators.along(what.axis).laneOf(kind).stream;
  watchdog.note(index);
  cuda::order(stream, sites[index].ready, device.computeStream());
  bucket.push_back(
      {index, kind, static_cast<const char *>(send), static_cast<char *>(recv), count, type});
  if (static_cast<int32_t>(bucket.size()) < std::max(what.bucket_size, 1))
    return;
  pending.enter(bucket.front().site);
  CUstream end = calls.enqueue(bucket);
  for (const Request &request : bucket)
    cuda::must(cu.cuEventRecord(sites[request.site].done, end), "record an event");
  for (const Request &request : bucket)
    pending.add(request.site, calls.bytesOf(request.site), stream, end);
  bucket.clear();
}

void NcclCollectives::wait(int32_t index) {
  cuda::must(cu.cuStreamWaitEvent(device.computeStream(), sites[index].done, 0),
             "wait for an event");
}

void NcclCollectives::beginCapture(ShaleFunction function) {
  calls.forgetSums();
  pending.beginCapture(function);
}

void NcclCollectives::endCapture() {
  pending.endCapture();
  calls.forgetSums();
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
