//===- SplitClusters.cpp - Clusters that have a kernel --------------------===//
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/IRMapping.h"
#include "passes/codegen/Kernel.h"
#include "passes/fusion/Groups.h"
#include "passes/fusion/Passes.h"

namespace shale {
#define GEN_PASS_DEF_SPLITCLUSTERSPASS
#include "passes/fusion/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;

namespace {

/// Ops without a kernel that an error lists, at most.
constexpr size_t kShown = 20;

/// Generates kernels for trial, each different one once.
class Trial {
public:
  Trial(ModuleOp module, int64_t lanes) : module(module) { options.lanes = lanes; }

  /// Why no kernel can be generated of `body`; empty where one can. The region stays until the trial ends.
  std::string refusal(Region &body) {
    for (auto &[other, reason] : known)
      if (equalKernels(body, *other))
        return reason;
    known.push_back({&body, generate(body)});
    return known.back().second;
  }

private:
  std::string generate(Region &body) {
    std::string reason;
    ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error && reason.empty())
        reason = diagnostic.str();
    });
    OwningOpRef<ModuleOp> scratch = ModuleOp::create(module.getLoc());
    bool works = succeeded(generateKernel(*scratch, "trial", body, options));
    return works ? "" : reason.empty() ? "no reason is given" : reason;
  }

  ModuleOp module;
  KernelOptions options;
  SmallVector<std::pair<Region *, std::string>> known;
};

bool isOneOp(nn::ClusterOp cluster) { return llvm::hasSingleElement(cluster.getBody().front().without_terminator()); }

/// Puts the cluster's ops in its place.
void inlineCluster(nn::ClusterOp cluster) {
  OpBuilder builder(cluster);
  IRMapping mapping;
  mapping.map(cluster.getBody().getArguments(), cluster.getInputs());
  for (Operation &op : cluster.getBody().front().without_terminator())
    builder.clone(op, mapping)->setDiscardableAttrs(cluster->getDiscardableAttrDictionary());
  for (auto [result, yielded] : llvm::zip(cluster.getResults(), cluster.getBody().front().getTerminator()->getOperands()))
    result.replaceAllUsesWith(mapping.lookup(yielded));
  cluster.erase();
}

/// Ops without a kernel, each with the reason; clusters of several ops instead go to `splittable`.
SmallVector<std::pair<Operation *, std::string>> findRefused(ModuleOp module, int64_t lanes, SmallVectorImpl<nn::ClusterOp> &splittable) {
  SmallVector<std::pair<Operation *, std::string>> refused;
  SmallVector<nn::ClusterOp> isolated;
  Trial trial(module, lanes);
  SmallVector<Operation *> candidates;
  module.walk([&](Operation *op) {
    if (isa<nn::ClusterOp>(op) || (isa<OwnKernel>(op) && !op->getParentOfType<nn::ClusterOp>()))
      candidates.push_back(op);
  });
  for (Operation *op : candidates) {
    auto cluster = dyn_cast<nn::ClusterOp>(op);
    if (!cluster)
      isolated.push_back(isolate(cast<OwnKernel>(op)));
    std::string reason = trial.refusal(cluster ? cluster.getBody() : isolated.back().getBody());
    if (reason.empty())
      continue;
    if (cluster && !isOneOp(cluster))
      splittable.push_back(cluster);
    else
      refused.push_back({cluster ? &cluster.getBody().front().front() : op, reason});
  }
  for (nn::ClusterOp cluster : isolated)
    cluster.erase();
  return refused;
}

LogicalResult report(ArrayRef<std::pair<Operation *, std::string>> refused) {
  if (refused.empty())
    return success();
  auto [first, why] = refused.front();
  InFlightDiagnostic error = emitError(first->getLoc()) << "'" << first->getName() << "' has no kernel on this target: " << why;
  for (auto &[op, reason] : refused.drop_front().take_front(kShown))
    error.attachNote(op->getLoc()) << "'" << op->getName() << "' has none either: " << reason;
  if (refused.size() > kShown + 1)
    error.attachNote(first->getLoc()) << "and " << refused.size() - kShown - 1 << " more";
  return error;
}

struct SplitClustersPass : shale::impl::SplitClustersPassBase<SplitClustersPass> {
  using SplitClustersPassBase::SplitClustersPassBase;

  void runOnOperation() override {
    SmallVector<nn::ClusterOp> splittable;
    auto refused = findRefused(getOperation(), lanes, splittable);
    if (!splittable.empty()) {
      llvm::SetVector<Block *> blocks;
      for (nn::ClusterOp cluster : splittable) {
        blocks.insert(cluster->getBlock());
        inlineCluster(cluster);
      }
      for (Block *block : blocks)
        fuseBlock(*block, /*singletons=*/true);
      splittable.clear();
      refused = findRefused(getOperation(), lanes, splittable);
    }
    if (failed(report(refused)))
      signalPassFailure();
  }
};

} // namespace
