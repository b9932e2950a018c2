// Connects the ranks along an axis.
//
// NCCL allocates most of its memory at the first collective of each kind: buffers for every peer.
// So each kind runs once, before the program allocates the arena.
#include "runtime/comm/nccl/NcclCollectives.h"
#include "runtime/core/Rank.h"
#include "runtime/core/TimeLimit.h"
#include "runtime/core/Types.h"

namespace shale::rt {

/// Sets up an axis, and makes the communicators that its collectives need.
void NcclCollectives::join(int index, int rank) {
  Axis &axis = axes[index];
  std::vector<int> ranks = ranksAlong(program, rank, index);
  axis.size = static_cast<int>(ranks.size());
  axis.own = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  for (int other : ranks)
    if (other != rank)
      axis.others.push_back(other);
  for (Lane *lane : {&axis.gathers, &axis.reductions})
    if (std::any_of(program.sites, program.sites + program.site_count, [&](const ShaleSite &site) {
          return site.axis == index && &laneOf(index, site.kind) == lane;
        }))
      connect(index, *lane, ranks.front());
}

/// Makes a communicator and its stream. The first rank of the axis sends NCCL's id to the others.
void NcclCollectives::connect(int index, Lane &lane, int first) {
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
  cuda::require(cu.cuStreamCreate(&lane.stream, CU_STREAM_NON_BLOCKING), "create a stream");
}

/// NCCL waits for the other ranks without a limit.
TimeLimit NcclCollectives::limitConnecting(int index) {
  return TimeLimit(timeout, [this, index] {
    die(SHALE_EXIT_PEER,
        format("NCCL does not connect the ranks along axis '%s' within %.1f s: %s",
               axisName(program, index), timeout, describeSilence(axes[index]).c_str()));
  });
}

/// Runs each kind of collective of an axis, with one element per rank and with as many as the
/// largest of the program has, or fit into the scratch buffer: NCCL chooses its algorithm, and with
/// it the buffers, by size.
void NcclCollectives::warmUp(int index) {
  const Axis &axis = axes[index];
  TimeLimit limit = limitConnecting(index);
  std::map<std::pair<int32_t, bool>, Request> kinds; // the largest of each
  for (int32_t s = 0; s < program.site_count; ++s) {
    const ShaleSite &site = program.sites[s];
    if (site.axis != index)
      continue;
    int64_t bytes = site.sent_bytes / std::max(1, axis.size - 1) /
                    (keepsShape(site.kind) ? 2 : 1); // of one rank's slice
    Request request{s,
                    static_cast<ShaleCollectiveKind>(site.kind),
                    scratch->data(),
                    scratch->data(),
                    bytes / sizeOf(static_cast<Dtype>(site.type)),
                    static_cast<ShaleType>(site.type)};
    auto &largest =
        kinds.try_emplace({site.kind, sumsByProducts(site.kind, site.type)}, request).first->second;
    if (request.count > largest.count)
      largest = request;
  }
  for (const auto &[kind, request] : kinds) {
    warmUp(axis, request, 1);
    int64_t room = scratch->size() /
                   (sendsAll(request.kind) && receivesAll(request.kind) ? 128 : 64) *
                   64; // of the operand
    int64_t fit = room / (axis.size * sizeOf(static_cast<Dtype>(request.type)));
    if (int64_t slice = std::min(request.count, fit); slice > 1 && !kind.second)
      warmUp(axis, request, slice);
  }
  for (const Lane *lane : {&axis.gathers, &axis.reductions})
    if (lane->comm)
      cuda::require(cu.cuStreamSynchronize(lane->stream), "finish its first collectives");
}

/// Runs a collective like another one in the scratch buffer, with `slice` elements per rank.
void NcclCollectives::warmUp(const Axis &axis, const Request &like, int64_t slice) {
  const Lane &lane = gathers(like.kind) ? axis.gathers : axis.reductions;
  Request request = like;
  int64_t bytes = slice * sizeOf(static_cast<Dtype>(like.type));
  request.count = keepsShape(like.kind) ? slice * axis.size : slice;
  if (sumsByProducts(like.kind, like.type)) {
    exchange(axis, lane, request, /*stride=*/0, /*begin=*/0, slice, startOf(halves[1]));
    if (sendsAll(like.kind))
      return;
    request.kind = SHALE_ALL_GATHER, request.count = slice;
  }
  if (sendsAll(request.kind) && receivesAll(request.kind))
    request.recv = startOf(halves[1]);
  else if (receivesAll(request.kind))
    request.send += axis.own * bytes;
  else if (sendsAll(request.kind))
    request.recv += axis.own * bytes;
  enqueue(axis, lane, request);
}

} // namespace shale::rt
