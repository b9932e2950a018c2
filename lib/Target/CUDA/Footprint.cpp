//===- Footprint.cpp - Memory of libraries on the device ------------------===//
#include "lib/Target/CUDA/CUDA.h"
#include "shale/Runtime.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace shale;

// Measured on an H200 (docs/benchmarks.md, sections F and I). A communicator's memory depends
// on the number of its channels, not on that of its ranks.
static constexpr int64_t kMiB = 1 << 20;
static constexpr int64_t kContextBytes = 527 * kMiB;
static constexpr int64_t kStreamBytes = 10 * kMiB; // streams, and a graph of 1500 nodes
static constexpr int64_t kBlasBytes = 6 * kMiB;
static constexpr int64_t kDnnBytes = 24 * kMiB; // handle and plans
static constexpr int64_t kFirstCommunicatorBytes = 580 * kMiB, kCommunicatorBytes = 390 * kMiB;

/// NCCL has the sums of 32-bit floats. Pieces of 16-bit floats are exchanged, and one sum follows
/// each exchange: a few large ones take as long as the wire.
int64_t CudaTarget::mostReceiveScratch(Type element) const {
  return is16BitFloat(element) ? 192 * kMiB : Target::mostReceiveScratch(element);
}

std::vector<FixedCost> CudaTarget::getFixedCosts(ModuleOp module, int64_t, int64_t) const {
  llvm::StringSet<> axes;
  bool attends = false;
  for (auto function : module.getOps<rt::FuncOp>()) {
    function.walk([&](Operation *op) { attends |= isa<rt::SdpaOp, rt::SdpaGradOp>(op); });
    function.walk([&](rt::CollectiveOpInterface op) { axes.insert(op.getAxisAttr().getValue()); });
  }
  std::vector<FixedCost> costs = {
      {rt::Category::Workspace, "workspace of cuBLASLt", int64_t(SHALE_BLAS_WORKSPACE)},
      {rt::Category::Fixed, "context of the driver", kContextBytes},
      {rt::Category::Fixed, "streams and graphs", kStreamBytes},
      {rt::Category::Fixed, "cuBLASLt", kBlasBytes}};
  if (attends)
    costs.push_back({rt::Category::Fixed, "cuDNN", kDnnBytes});
  if (!axes.empty())
    costs.push_back({rt::Category::Fixed, "communicators of NCCL",
                     kFirstCommunicatorBytes + int64_t(axes.size() - 1) * kCommunicatorBytes});
  return costs;
}
