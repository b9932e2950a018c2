// Calls of NCCL for one collective. Each call adds the bytes that it sends, as a ring does: NCCL
// does not report how it sends. An all-to-all is one group of sends and receives.
//
// NCCL sums 16-bit floats in their own type. Instead, ranks exchange pieces, and the sum is a
// matmul with a row of ones: sums in f32, rounded once. Sums have a stream of their own. While one
// half of the scratch buffer is summed, the next piece is received into the other half, also across
// collectives.
//
// NCCL allocates most of its memory at the first collective of each kind: buffers for every peer.
// So each kind runs once, before the program allocates the arena.
#include "runtime/comm/nccl/CollectiveCalls.h"
#include "runtime/core/Rank.h"
#include "runtime/core/Types.h"

#include <algorithm>
#include <map>
#include <utility>

namespace shale::rt {

static ncclDataType_t typeOf(ShaleType type) {
  switch (type) {
  case SHALE_F64:
    return ncclFloat64;
  case SHALE_BF16:
    return ncclBfloat16;
  case SHALE_F16:
    return ncclFloat16;
  case SHALE_I64:
    return ncclInt64;
  case SHALE_I32:
  case SHALE_INT8_BLOCKS: // words
    return ncclInt32;
  case SHALE_BOOL:
    return ncclUint8;
  case SHALE_F32:
  case SHALE_F8_E4M3: // operands of matmuls only
  case SHALE_F8_E5M2:
  case SHALE_NO_TYPE:
    break;
  }
  return ncclFloat32;
}

bool CollectiveCalls::sumsByMatmuls(int32_t kind, int32_t type) {
  return (type == SHALE_BF16 || type == SHALE_F16) && rt::sums(kind);
}

CollectiveCalls::CollectiveCalls(const ShaleProgram &program, cuda::CudaDevice &device,
                                 const Communicators &communicators,
                                 const CollectiveConstants &constants)
    : program(program), communicators(communicators), constants(constants),
      scratch(device.allocate(SHALE_SPACE_DEVICE, scratchBytes(program), "receive scratch")),
      sent(program.site_count) {
  for (int a = 0; a < axisTotal(program); ++a)
    warmUp(a);
  if (std::any_of(program.sites, program.sites + program.site_count,
                  [](const ShaleSite &site) { return sumsByMatmuls(site.kind, site.type); })) {
    cuda::require(cu.cuStreamCreate(&sums, CU_STREAM_NON_BLOCKING), "create a stream");
    for (Half &half : halves)
      for (CUevent *event : {&half.received, &half.summed})
        cuda::require(cu.cuEventCreate(event, CU_EVENT_DISABLE_TIMING), "create an event");
  }
}

/// Runs each kind of collective of an axis, with one element per rank and with as many as the
/// largest of the program has, or fit into the scratch buffer: NCCL chooses its algorithm, and with
/// it the buffers, by size.
void CollectiveCalls::warmUp(int index) {
  const Axis &axis = communicators.along(index);
  TimeLimit limit = communicators.limitConnecting(index);
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
        kinds.try_emplace({site.kind, sumsByMatmuls(site.kind, site.type)}, request).first->second;
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
void CollectiveCalls::warmUp(const Axis &axis, const Request &like, int64_t slice) {
  const Lane &lane = axis.laneOf(like.kind);
  Request request = like;
  int64_t bytes = slice * sizeOf(static_cast<Dtype>(like.type));
  request.count = keepsShape(like.kind) ? slice * axis.size : slice;
  if (sumsByMatmuls(like.kind, like.type)) {
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

void CollectiveCalls::must(ncclResult_t result, int32_t site) const {
  if (result == ncclSuccess)
    return;
  const ShaleSite &what = program.sites[site];
  die(SHALE_EXIT_PEER,
      format("%s '%s' failed: NCCL: %s", kindName(static_cast<ShaleCollectiveKind>(what.kind)),
             what.name, describeFailure(result).c_str()));
}

CUstream CollectiveCalls::enqueue(const std::vector<Request> &bucket) {
  const Request &first = bucket.front();
  const Axis &axis = communicators.along(program.sites[first.site].axis);
  const Lane &lane = axis.laneOf(first.kind);
  bool apart = sumsByMatmuls(first.kind, first.type);
  if (!apart)
    must(library.ncclGroupStart(), first.site);
  CUstream end = lane.stream;
  for (const Request &request : bucket)
    end = enqueue(axis, lane, request);
  if (!apart)
    must(library.ncclGroupEnd(), first.site);
  return end;
}

void CollectiveCalls::forgetSums() {
  for (Half &half : halves)
    half.used = false;
}

/// Returns the stream on which the collective is complete.
CUstream CollectiveCalls::enqueue(const Axis &axis, const Lane &lane, const Request &r) {
  sent[r.site] = 0;
  if (r.kind == SHALE_ALL_GATHER) {
    enqueueGather(axis, lane, r);
    return lane.stream;
  }
  if (r.kind == SHALE_ALL_TO_ALL) {
    if (r.count > 0)
      exchange(axis, lane, r, /*stride=*/r.count, /*begin=*/0, r.count, r.recv);
    return lane.stream;
  }
  if (!sumsByMatmuls(r.kind, r.type)) {
    ncclDataType_t type = typeOf(r.type);
    auto stream = reinterpret_cast<cudaStream_t>(lane.stream);
    int64_t slice = (r.count + axis.size - 1) / axis.size; // of an all-reduce
    sent[r.site] += (axis.size - 1) * sizeOf(static_cast<Dtype>(r.type)) *
                    (r.kind == SHALE_REDUCE_SCATTER ? r.count : 2 * slice);
    must(r.kind == SHALE_REDUCE_SCATTER
             ? library.ncclReduceScatter(r.send, r.recv, r.count, type, ncclSum, lane.comm, stream)
             : library.ncclAllReduce(r.send, r.recv, r.count, type, ncclSum, lane.comm, stream),
         r.site);
    return lane.stream;
  }
  if (r.count == 0)
    return lane.stream;
  if (r.kind == SHALE_REDUCE_SCATTER) {
    sumPieces(axis, lane, r, r.count);
    return sums;
  }
  // An all-reduce is a reduce-scatter of equal slices and a gather; every rank sums the rest.
  int64_t slice = r.count / axis.size, rest = r.count - slice * axis.size;
  Request part = r, tail = r;
  part.count = slice;
  part.recv = r.recv + axis.own * slice * 2;
  sumPieces(axis, lane, part, slice);
  tail.count = rest;
  tail.send = r.send + slice * axis.size * 2;
  tail.recv = r.recv + slice * axis.size * 2;
  sumPieces(axis, lane, tail, 0);
  cuda::must(cu.cuStreamWaitEvent(lane.stream, halves[1 - next].summed, 0), "wait for an event");
  part.send = part.recv, part.recv = r.recv;
  if (slice > 0)
    enqueueGather(axis, lane, part);
  return lane.stream;
}

void CollectiveCalls::enqueueGather(const Axis &axis, const Lane &lane, const Request &r) {
  sent[r.site] += (axis.size - 1) * r.count * sizeOf(static_cast<Dtype>(r.type));
  must(library.ncclAllGather(r.send, r.recv, r.count, typeOf(r.type), lane.comm,
                             reinterpret_cast<cudaStream_t>(lane.stream)),
       r.site);
}

/// Receives elements [own * stride + begin, .. + length) of every rank's r.send, and sends each
/// rank its own: those of all ranks follow one another from `into` on.
void CollectiveCalls::exchange(const Axis &axis, const Lane &lane, const Request &r, int64_t stride,
                               int64_t begin, int64_t length, char *into) {
  ncclDataType_t type = typeOf(r.type);
  int64_t element = sizeOf(static_cast<Dtype>(r.type));
  auto stream = reinterpret_cast<cudaStream_t>(lane.stream);
  must(library.ncclGroupStart(), r.site);
  for (int other = 0; other < axis.size; ++other) {
    must(library.ncclSend(r.send + (other * stride + begin) * element, length, type, other,
                          lane.comm, stream),
         r.site);
    sent[r.site] += other == axis.own ? 0 : length * element;
    must(library.ncclRecv(into + other * length * element, length, type, other, lane.comm, stream),
         r.site);
  }
  must(library.ncclGroupEnd(), r.site);
}

/// Computes recv[0..count) = sum over ranks r of r's send[own * stride ..], in pieces of equal size
/// that fit into a half of the scratch buffer. The result is complete on the stream of sums.
void CollectiveCalls::sumPieces(const Axis &axis, const Lane &lane, const Request &r,
                                int64_t stride) {
  if (r.count == 0)
    return;
  constexpr int64_t alignment = 32; // elements: 64 bytes
  int64_t most =
      (startOf(halves[1]) - startOf(halves[0])) / (2 * axis.size) / alignment * alignment;
  int64_t pieces = (r.count + most - 1) / most;
  int64_t piece = ((r.count + pieces - 1) / pieces + alignment - 1) / alignment * alignment;
  for (int64_t begin = 0; begin < r.count; begin += piece) {
    Half &half = halves[next];
    next = 1 - next;
    int64_t length = std::min(piece, r.count - begin);
    if (std::exchange(half.used, true))
      cuda::must(cu.cuStreamWaitEvent(lane.stream, half.summed, 0), "wait for an event");
    exchange(axis, lane, r, stride, begin, length, startOf(half));
    cuda::order(sums, half.received, lane.stream);
    Matmul matmul = {};
    matmul.m = 1, matmul.n = length, matmul.k = axis.size;
    matmul.alpha = 1, matmul.beta = 0, matmul.batch = 1;
    matmul.a = constants.ones(r.type), matmul.lda = axis.size;
    matmul.b = startOf(half), matmul.ldb = length;
    matmul.c = r.recv + begin * 2, matmul.ldc = length;
    matmul.type = matmul.resultType = static_cast<Dtype>(r.type);
    matmuls.multiply(matmul, sums);
    cuda::must(cu.cuEventRecord(half.summed, sums), "record an event");
  }
}

} // namespace shale::rt
