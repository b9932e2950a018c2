// Connects the ranks along each axis with NCCL.
#include "runtime/comm/nccl/Communicators.h"
#include "runtime/core/Error.h"
#include "runtime/core/Rank.h"
#include "runtime/device/cuda/Driver.h"

#include <algorithm>
#include <set>
#include <utility>

namespace shale::rt {

/// Returns the number of communicators of a program: one for the gathers of an axis, one for its
/// reductions.
static size_t communicatorsOf(const ShaleProgram &program) {
  std::set<std::pair<int32_t, bool>> used;
  for (int32_t s = 0; s < program.site_count; ++s)
    used.insert({program.sites[s].axis, gathers(program.sites[s].kind)});
  return used.size();
}

Communicators::Communicators(const ShaleProgram &program, int rank, Peers &peers, double timeout)
    : program(program), peers(peers), timeout(timeout), axes(axisTotal(program)) {
  if (communicatorsOf(program) > 1)
    orderLaunches();
  for (int a = 0; a < axisTotal(program); ++a)
    join(a, rank);
}

/// Sets up an axis, and makes the communicators that its collectives need.
void Communicators::join(int index, int rank) {
  Axis &axis = axes[index];
  std::vector<int> ranks = ranksAlong(program, rank, index);
  axis.size = static_cast<int>(ranks.size());
  axis.own = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  for (int other : ranks)
    if (other != rank)
      axis.others.push_back(other);
  for (Lane *lane : {&axis.gathers, &axis.reductions})
    if (std::any_of(program.sites, program.sites + program.site_count, [&](const ShaleSite &site) {
          return site.axis == index && &axis.laneOf(site.kind) == lane;
        }))
      connect(index, *lane, ranks.front());
}

/// Makes a communicator and its stream. The first rank of the axis sends NCCL's id to the others.
void Communicators::connect(int index, Lane &lane, int first) {
  const Axis &axis = axes[index];
  auto need = [&](ncclResult_t result, const char *what) {
    if (result != ncclSuccess)
      fail(SHALE_EXIT_PEER, "NCCL cannot %s along axis '%s': %s", what, axisName(program, index),
           describeFailure(result).c_str());
  };
  ncclUniqueId id;
  if (axis.own == 0) {
    need(library.ncclGetUniqueId(&id), "make a communicator");
    for (int other : axis.others)
      peers.send(other, &id, sizeof(id));
  } else {
    peers.receive(first, &id, sizeof(id));
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.maxCTAs = SHALE_COMM_BLOCKS;
  config.commName = axisName(program, index);
  {
    TimeLimit limit = limitConnecting(index);
    need(library.ncclCommInitRankConfig(&lane.comm, axis.size, id, axis.own, &config),
         "connect the ranks");
  }
  cuda::require(cuda::driver().cuStreamCreate(&lane.stream, CU_STREAM_NON_BLOCKING),
                "create a stream");
}

TimeLimit Communicators::limitConnecting(int index) const {
  return TimeLimit(timeout, [this, index] {
    die(SHALE_EXIT_PEER, format("NCCL does not connect the ranks along axis '%s' within %.1f s: %s",
                                axisName(program, index), timeout, describeSilence(index).c_str()));
  });
}

ncclResult_t Communicators::errorAlong(int index) const {
  ncclResult_t state = ncclSuccess;
  for (ncclComm_t comm : {axes[index].gathers.comm, axes[index].reductions.comm})
    if (comm && (state == ncclSuccess || state == ncclInProgress) &&
        library.ncclCommGetAsyncError(comm, &state) != ncclSuccess)
      state = ncclSuccess;
  return state == ncclInProgress ? ncclSuccess : state;
}

void Communicators::registerMemory(const std::vector<const Memory *> &blocks) {
  ncclResult_t result = ncclSuccess;
  for (const Axis &axis : axes)
    for (ncclComm_t comm : {axis.gathers.comm, axis.reductions.comm})
      for (const Memory *block : blocks)
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

std::string Communicators::describeSilence(int index) const {
  std::vector<int> silent = peers.findSilent(axes[index].others, patience());
  if (silent.empty())
    return "all its ranks wait for it: a GPU or the network is stuck";
  std::string list;
  for (int rank : silent)
    list += (list.empty() ? "" : ", ") + peers.nameOf(rank);
  return list + " did not reach it, or ended";
}

double Communicators::patience() const { return std::clamp(timeout / 2, 0.5, 5.0); }

} // namespace shale::rt
