// Which collectives between GPUs are not complete.
#include "runtime/comm/nccl/PendingCollectives.h"
#include "runtime/core/Rank.h"

#include <algorithm>

namespace shale::rt {

PendingCollectives::PendingCollectives(const ShaleProgram &program, cuda::CudaDevice &device,
                                       const CollectiveConstants &constants)
    : program(program), device(device), constants(constants), sites(program.site_count),
      last(axisTotal(program)) {
  cuda::require(cu.cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING), "create an event");
  flags = device.allocate(SHALE_SPACE_HOST, program.site_count * 4, "flags of collectives");
}

void PendingCollectives::enter(int32_t site) {
  if (capture)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  entering = Pending{{site, number + 1}, Clock::now()};
}

void PendingCollectives::add(int32_t site, int64_t bytes, CUstream stream, CUstream end) {
  std::lock_guard<std::mutex> lock(mutex);
  entering.reset();
  sites[site].bytes = bytes;
  if (!capture) {
    if (runs.empty())
      ranSince = Clock::now();
    runs.push_back({{site, count(site)}, markDone(end)});
    return;
  }
  capture->push_back(site);
  cuda::must(cu.cuMemcpyDtoHAsync(flags->data() + 4 * site,
                                  reinterpret_cast<CUdeviceptr>(constants.one()), 4, end),
             "set a flag");
  for (CUstream used : {stream, end})
    if (std::find(forked.begin(), forked.end(), used) == forked.end())
      forked.push_back(used);
}

/// Counts a collective that is started, and returns its number.
int64_t PendingCollectives::count(int32_t site) {
  sites[site].sent += sites[site].bytes;
  last[program.sites[site].axis] = {site, ++number};
  return number;
}

/// Records an event of its own, which oldest() queries and puts back into `spareEvents`.
CUevent PendingCollectives::markDone(CUstream stream) {
  if (spareEvents.empty())
    cuda::must(cu.cuEventCreate(&spareEvents.emplace_back(), CU_EVENT_DISABLE_TIMING),
               "create an event");
  CUevent done = spareEvents.back();
  spareEvents.pop_back();
  cuda::must(cu.cuEventRecord(done, stream), "record an event");
  return done;
}

void PendingCollectives::beginCapture(ShaleFunction function) {
  capture = &graphs[function];
  if (program.site_count > 0)
    cuda::must(cu.cuMemcpyDtoHAsync(flags->data(), reinterpret_cast<CUdeviceptr>(constants.zeros()),
                                    flags->size(), device.computeStream()),
               "clear flags");
}

/// The last flags are set after the compute stream has waited for the last collective, so the
/// streams join it here.
void PendingCollectives::endCapture() {
  for (CUstream stream : forked)
    cuda::order(device.computeStream(), joined, stream);
  forked.clear();
  capture = nullptr;
}

void PendingCollectives::launched(ShaleFunction function) {
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
void PendingCollectives::follow() {
  completed = 0;
  progressed = Clock::now();
}

std::optional<PendingCollectives::Pending> PendingCollectives::oldest() {
  std::optional<Pending> outside = oldestOutside(), inside = oldestOfGraph();
  if (!outside && !inside)
    return entering;
  if (!outside || !inside)
    return outside ? outside : inside;
  return outside->number < inside->number ? outside : inside;
}

std::optional<PendingCollectives::Pending> PendingCollectives::oldestOutside() {
  while (!runs.empty() && cu.cuEventQuery(runs.front().done) != CUDA_ERROR_NOT_READY) {
    spareEvents.push_back(runs.front().done);
    runs.pop_front();
    ranSince = Clock::now();
    if (runs.empty() && !launches.empty())
      follow();
  }
  if (runs.empty())
    return std::nullopt;
  return Pending{runs.front(), ranSince};
}

std::optional<PendingCollectives::Pending> PendingCollectives::oldestOfGraph() {
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
  return Pending{{*first, launches.front().firstNumber + (first - ran.begin())}, progressed};
}

} // namespace shale::rt
