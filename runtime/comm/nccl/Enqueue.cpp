// Calls of NCCL for one collective. Each call adds the bytes that it sends, as a ring does: NCCL
// does not report how it sends.
//
// NCCL sums 16-bit floats in their own type. Instead, ranks exchange the pieces, and the sum is a
// product with a row of ones: sums in f32, rounded once.
#include "runtime/comm/nccl/NcclCollectives.h"
#include "runtime/core/Types.h"

#include <algorithm>

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
    return ncclInt32;
  case SHALE_BOOL:
    return ncclUint8;
  case SHALE_F32:
  case SHALE_NO_TYPE:
    break;
  }
  return ncclFloat32;
}

bool NcclCollectives::sumsByProducts(const Request &r) {
  return (r.type == SHALE_BF16 || r.type == SHALE_F16) && r.kind != SHALE_ALL_GATHER;
}

void NcclCollectives::enqueue(const Axis &axis, const Request &r, CUstream stream) {
  int64_t &bytes = sites[r.site].bytes;
  bytes = 0;
  if (r.kind == SHALE_ALL_GATHER)
    return enqueueGather(axis, r, stream);
  if (!sumsByProducts(r)) {
    ncclDataType_t type = typeOf(r.type);
    auto stream_ = reinterpret_cast<cudaStream_t>(stream);
    int64_t slice = (r.count + axis.size - 1) / axis.size; // of an all-reduce
    bytes += (axis.size - 1) * sizeOf(static_cast<Dtype>(r.type)) *
             (r.kind == SHALE_REDUCE_SCATTER ? r.count : 2 * slice);
    return must(
        r.kind == SHALE_REDUCE_SCATTER
            ? library.ncclReduceScatter(r.send, r.recv, r.count, type, ncclSum, axis.comm, stream_)
            : library.ncclAllReduce(r.send, r.recv, r.count, type, ncclSum, axis.comm, stream_),
        r.site);
  }
  if (r.kind == SHALE_REDUCE_SCATTER)
    return sumPieces(axis, r, stream, r.count);
  // An all-reduce is a reduce-scatter of equal slices and a gather; every rank sums the rest.
  int64_t slice = r.count / axis.size, rest = r.count - slice * axis.size;
  if (slice > 0) {
    Request part = r;
    part.count = slice;
    part.recv = r.recv + axis.own * slice * 2;
    sumPieces(axis, part, stream, slice);
    part.send = part.recv, part.recv = r.recv;
    enqueueGather(axis, part, stream);
  }
  if (rest > 0) {
    Request tail = r;
    tail.count = rest;
    tail.send = r.send + slice * axis.size * 2;
    tail.recv = r.recv + slice * axis.size * 2;
    sumPieces(axis, tail, stream, 0);
  }
}

void NcclCollectives::enqueueGather(const Axis &axis, const Request &r, CUstream stream) {
  sites[r.site].bytes += (axis.size - 1) * r.count * sizeOf(static_cast<Dtype>(r.type));
  must(library.ncclAllGather(r.send, r.recv, r.count, typeOf(r.type), axis.comm,
                             reinterpret_cast<cudaStream_t>(stream)),
       r.site);
}

/// Computes recv[0..count) = sum over ranks r of r's send[own * stride ..], piece by piece: the
/// pieces of all ranks follow one another in the scratch buffer.
void NcclCollectives::sumPieces(const Axis &axis, const Request &r, CUstream stream,
                                int64_t stride) {
  ncclDataType_t type = typeOf(r.type);
  auto stream_ = reinterpret_cast<cudaStream_t>(stream);
  int64_t most = scratch->size() / (2 * axis.size) / 32 * 32;
  for (int64_t begin = 0; begin < r.count; begin += most) {
    int64_t length = std::min(most, r.count - begin);
    must(library.ncclGroupStart(), r.site);
    for (int other = 0; other < axis.size; ++other) {
      must(library.ncclSend(r.send + (other * stride + begin) * 2, length, type, other, axis.comm,
                            stream_),
           r.site);
      sites[r.site].bytes += other == axis.own ? 0 : length * 2;
      must(library.ncclRecv(scratch->data() + other * length * 2, length, type, other, axis.comm,
                            stream_),
           r.site);
    }
    must(library.ncclGroupEnd(), r.site);
    unsigned one = r.type == SHALE_BF16 ? 0x3f803f80 : 0x3c003c00; // twice 1.0
    cuda::must(cu.cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(ones->data()), one,
                                   (axis.size + 1) / 2, stream),
               "store ones");
    Product product = {};
    product.m = 1, product.n = length, product.k = axis.size;
    product.alpha = 1, product.beta = 0, product.batch = 1;
    product.a = ones->data(), product.lda = axis.size;
    product.b = scratch->data(), product.ldb = length;
    product.c = r.recv + begin * 2, product.ldc = length;
    product.type = product.resultType = static_cast<Dtype>(r.type);
    sums.multiply(product, stream);
  }
}

} // namespace shale::rt
