// Calls of NCCL for one collective. Each call adds the bytes that it sends, as a ring does: NCCL
// does not report how it sends. An all-to-all is one group of sends and receives.
//
// NCCL sums 16-bit floats in their own type. Instead, ranks exchange pieces, and the sum is a
// product with a row of ones: sums in f32, rounded once. Sums have a stream of their own. While one
// half of the scratch buffer is summed, the next piece is received into the other half, also across
// collectives.
#include "runtime/comm/nccl/NcclCollectives.h"
#include "runtime/core/Types.h"

#include <algorithm>
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
  case SHALE_F8_E4M3: // operands of products only
  case SHALE_F8_E5M2:
  case SHALE_NO_TYPE:
    break;
  }
  return ncclFloat32;
}

bool NcclCollectives::sumsByProducts(int32_t kind, int32_t type) {
  return (type == SHALE_BF16 || type == SHALE_F16) && rt::sums(kind);
}

/// Returns the stream on which the collective is complete.
CUstream NcclCollectives::enqueue(const Axis &axis, const Lane &lane, const Request &r) {
  int64_t &bytes = sites[r.site].bytes;
  bytes = 0;
  if (r.kind == SHALE_ALL_GATHER) {
    enqueueGather(axis, lane, r);
    return lane.stream;
  }
  if (r.kind == SHALE_ALL_TO_ALL) {
    if (r.count > 0)
      exchange(axis, lane, r, /*stride=*/r.count, /*begin=*/0, r.count, r.recv);
    return lane.stream;
  }
  if (!sumsByProducts(r.kind, r.type)) {
    ncclDataType_t type = typeOf(r.type);
    auto stream = reinterpret_cast<cudaStream_t>(lane.stream);
    int64_t slice = (r.count + axis.size - 1) / axis.size; // of an all-reduce
    bytes += (axis.size - 1) * sizeOf(static_cast<Dtype>(r.type)) *
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

void NcclCollectives::enqueueGather(const Axis &axis, const Lane &lane, const Request &r) {
  sites[r.site].bytes += (axis.size - 1) * r.count * sizeOf(static_cast<Dtype>(r.type));
  must(library.ncclAllGather(r.send, r.recv, r.count, typeOf(r.type), lane.comm,
                             reinterpret_cast<cudaStream_t>(lane.stream)),
       r.site);
}

/// Receives elements [own * stride + begin, .. + length) of every rank's r.send, and sends each
/// rank its own: those of all ranks follow one another from `into` on.
void NcclCollectives::exchange(const Axis &axis, const Lane &lane, const Request &r, int64_t stride,
                               int64_t begin, int64_t length, char *into) {
  ncclDataType_t type = typeOf(r.type);
  int64_t element = sizeOf(static_cast<Dtype>(r.type));
  auto stream = reinterpret_cast<cudaStream_t>(lane.stream);
  must(library.ncclGroupStart(), r.site);
  for (int other = 0; other < axis.size; ++other) {
    must(library.ncclSend(r.send + (other * stride + begin) * element, length, type, other,
                          lane.comm, stream),
         r.site);
    sites[r.site].bytes += other == axis.own ? 0 : length * element;
    must(library.ncclRecv(into + other * length * element, length, type, other, lane.comm, stream),
         r.site);
  }
  must(library.ncclGroupEnd(), r.site);
}

/// Computes recv[0..count) = sum over ranks r of r's send[own * stride ..], in pieces of equal size
/// that fit into a half of the scratch buffer. The result is complete on the stream of sums.
void NcclCollectives::sumPieces(const Axis &axis, const Lane &lane, const Request &r,
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
    order(sums, half.received, lane.stream);
    Product product = {};
    product.m = 1, product.n = length, product.k = axis.size;
    product.alpha = 1, product.beta = 0, product.batch = 1;
    product.a = constants->data() + (r.type == SHALE_BF16 ? 0 : rowBytes), product.lda = axis.size;
    product.b = startOf(half), product.ldb = length;
    product.c = r.recv + begin * 2, product.ldc = length;
    product.type = product.resultType = static_cast<Dtype>(r.type);
    products.multiply(product, sums);
    cuda::must(cu.cuEventRecord(half.summed, sums), "record an event");
  }
}

} // namespace shale::rt
