//===- Footprint.cpp - Memory of libraries on the device ------------------===//
#include "dialects/dist/Dist.h"
#include "lib/Target/CUDA/CUDA.h"
#include "shale/Runtime.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace shale;

// Measured on an H200 (docs/measurements/h200.md, sections F and I).
static constexpr int64_t kMiB = 1 << 20;
static constexpr int64_t kContextBytes = 527 * kMiB;
static constexpr int64_t kStreamBytes = 10 * kMiB; // streams, and a graph of 1500 nodes
static constexpr int64_t kBlasBytes = 6 * kMiB;
static constexpr int64_t kDnnBytes = 24 * kMiB; // handle and plans
// NCCL itself, a communicator, and each of its blocks of threads. Without a limit there are 64.
// SHALE_COMM_BLOCKS = 16 blocks reach the rates of the links in Machines.cpp if each block moves
// 24 GB/s on an H100, 15 on an A100 and 45 on a B200. NCCL expects at least these rates of a block
// over NVLink (sm90SpeedArrayIntra and similar tables in its src/graph/search.cc).
static constexpr int64_t kNcclBytes = 190 * kMiB, kCommunicatorBytes = 6 * kMiB,
                         kBlockBytes = 6 * kMiB;
// Not measured: the buffers of a block for a neighbour that it sends to and one that it receives
// from. They have 4 MiB for large messages, 4.7 and 0.5 MiB for small ones, in units of 2 MiB
// (NCCL 2.28, DEFAULT_*BUFFSIZE in src/init.cc, src/transport/p2p.cc).
static constexpr int64_t kConnectionBytes = 12 * kMiB;

namespace {
/// The kinds of collectives of an axis, which determine its communicators and their buffers.
struct Communicators {
  bool gathers = false, scatters = false, reduces = false, exchanges = false;
};
} // namespace

/// Returns the bytes of NCCL's memory, and their description. The collectives of an axis that are
/// gathers have a communicator, and its reductions have one (runtime/comm/nccl).
static FixedCost communicatorCost(ModuleOp module, int64_t blocks) {
  llvm::MapVector<StringRef, Communicators> axes;
  for (auto function : module.getOps<rt::FuncOp>())
    function.walk([&](rt::CollectiveOpInterface op) {
      Communicators &axis = axes[op.getAxisAttr().getValue()];
      CollectiveKind kind = op.getCollectiveKind();
      bool is16Bit = is16BitFloat(op.getSend().getType().getElementType());
      axis.gathers |= gathers(kind);
      axis.scatters |= scatters(kind) && !is16Bit;
      axis.reduces |= keepsShape(kind);
      axis.exchanges |= (sendsAll(kind) && receivesAll(kind)) || (!gathers(kind) && is16Bit);
    });
  int64_t count = 0, neighbours = 0;
  for (auto &[name, axis] : axes) {
    int64_t size = dist::getAxisSize(module, name);
    count += axis.gathers + (axis.scatters || axis.reduces || axis.exchanges);
    if (size <= 1)
      continue;
    // A ring for each communicator. Small all-reduces use a tree: the parent and a child. Pieces
    // of 16-bit floats go to all peers; those of other hosts share buffers.
    constexpr int64_t mostPeers = 7;
    neighbours += axis.gathers + (axis.scatters || axis.reduces) + 2 * axis.reduces +
                  axis.exchanges * std::min(size - 1, mostPeers);
  }
  int64_t bytes = count == 0 ? 0
                             : kNcclBytes + count * (kCommunicatorBytes + blocks * kBlockBytes) +
                                   neighbours * blocks * kConnectionBytes;
  return {rt::Category::Fixed,
          llvm::formatv("NCCL: {0} communicator(s) of at most {1} blocks", count, blocks).str(),
          bytes};
}

/// NCCL has the sums of 32-bit floats. Pieces of 16-bit floats are exchanged and then summed, each
/// in one half of the buffer, while the next piece is exchanged: a few large ones take as long as
/// the wire.
int64_t CudaTarget::mostReceiveScratch(Type element) const {
  return is16BitFloat(element) ? 192 * kMiB : Target::mostReceiveScratch(element);
}

int64_t CudaTarget::reductionRounds(Type element, int64_t slice, int64_t ranks) const {
  int64_t half = mostReceiveScratch(element) / 2;
  return is16BitFloat(element)
             ? std::max<int64_t>(1,
                                 llvm::divideCeil(slice, half / (2 * std::max<int64_t>(ranks, 1))))
             : 1;
}

/// 16-bit floats are exchanged and summed group by group.
bool CudaTarget::exchangesBucketsAtOnce(Type element) const { return !is16BitFloat(element); }

std::vector<FixedCost> CudaTarget::getFixedCosts(ModuleOp module, int64_t, int64_t) const {
  bool attends = false;
  for (auto function : module.getOps<rt::FuncOp>())
    function.walk([&](Operation *op) { attends |= isa<rt::SdpaOp, rt::SdpaGradOp>(op); });
  std::vector<FixedCost> costs = {
      {rt::Category::Workspace, "workspace of cuBLASLt", int64_t(SHALE_BLAS_WORKSPACE)},
      {rt::Category::Fixed, "context of the driver", kContextBytes},
      {rt::Category::Fixed, "streams and graphs", kStreamBytes},
      {rt::Category::Fixed, "cuBLASLt", kBlasBytes}};
  if (attends)
    costs.push_back({rt::Category::Fixed, "cuDNN", kDnnBytes});
  costs.push_back(communicatorCost(module, SHALE_COMM_BLOCKS));
  return costs;
}
