//===- SplitClusters.cpp - Splits clusters without a kernel ---------------===//
#include "dialects/nn/Ops/Cluster.h"
#include "dialects/nn/Ops/Matmul.h"
#include "lib/Codegen/KernelAnswers.h"
#include "lib/Codegen/KernelEquality.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
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

/// The most ops without a kernel that an error lists as notes.
constexpr size_t kShown = 20;

/// Generates kernels as a trial, each distinct one once.
class Trial {
public:
  Trial(ModuleOp module, const Target &target) : module(module), target(target) {}

  /// Returns why no kernel can be generated for `body`; empty if one can. The region must live
  /// until the trial ends.
  std::string refusal(Region &body) {
    for (auto &[other, reason] : known)
      if (equalKernels(body, *other))
        return reason;
    // A target is one object, whatever its name.
    std::string question =
        ("refusal of " + target.getName() + " " + Twine(uintptr_t(&target))).str();
    known.push_back({&body, answerOnce(question, body, [&] { return generate(body); })});
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
    bool works = succeeded(target.generateKernel(*scratch, "trial", body));
    return works ? "" : reason.empty() ? "no reason is given" : reason;
  }

  ModuleOp module;
  const Target &target;
  SmallVector<std::pair<Region *, std::string>> known;
};

bool isOneOp(nn::ClusterOp cluster) {
  return llvm::hasSingleElement(cluster.getBody().front().without_terminator());
}

/// Replaces the cluster by its ops.
void inlineCluster(nn::ClusterOp cluster) {
  OpBuilder builder(cluster);
  IRMapping mapping;
  mapping.map(cluster.getBody().getArguments(), cluster.getInputs());
  for (Operation &op : cluster.getBody().front().without_terminator())
    builder.clone(op, mapping)->setDiscardableAttrs(cluster->getDiscardableAttrDictionary());
  for (auto [result, yielded] :
       llvm::zip(cluster.getResults(), cluster.getBody().front().getTerminator()->getOperands()))
    result.replaceAllUsesWith(mapping.lookup(yielded));
  cluster.erase();
}

/// A cluster, or an op with a dedicated kernel, and the reason why no kernel can be generated for
/// it.
using Refused = std::pair<Operation *, std::string>;

SmallVector<Refused> findRefused(ModuleOp module, const Target &target) {
  SmallVector<Refused> refused;
  SmallVector<nn::ClusterOp> isolated;
  Trial trial(module, target);
  SmallVector<Operation *> candidates;
  module.walk([&](Operation *op) {
    bool alone = !op->getParentOfType<nn::ClusterOp>();
    // A matmul of a type that the target's library does not have cannot be generated, either.
    bool matmul = isa<nn::MatmulOp, nn::MatmulAddOp>(op) && !target.isLibraryCall(op);
    if (isa<nn::ClusterOp>(op) || (alone && (target.hasOwnKernel(op) || matmul)))
      candidates.push_back(op);
  });
  for (Operation *op : candidates) {
    auto cluster = dyn_cast<nn::ClusterOp>(op);
    if (!cluster)
      isolated.push_back(isolate(op));
    std::string reason = trial.refusal(cluster ? cluster.getBody() : isolated.back().getBody());
    if (!reason.empty())
      refused.push_back({op, reason});
  }
  for (nn::ClusterOp cluster : isolated)
    cluster.erase();
  return refused;
}

/// Splits the refused clusters of several ops; returns whether there were any.
bool split(ArrayRef<Refused> refused, const Target &target) {
  llvm::SetVector<Block *> blocks;
  for (const Refused &one : refused)
    if (auto cluster = dyn_cast<nn::ClusterOp>(one.first); cluster && !isOneOp(cluster)) {
      blocks.insert(cluster->getBlock());
      inlineCluster(cluster);
    }
  for (Block *block : blocks)
    fuseBlock(*block, target, /*singletons=*/true);
  return !blocks.empty();
}

LogicalResult report(MutableArrayRef<Refused> refused) {
  if (refused.empty())
    return success();
  // For a cluster, the error names its last op.
  for (auto &[op, reason] : refused)
    if (auto cluster = dyn_cast<nn::ClusterOp>(op))
      op = cluster.getBody().front().getTerminator()->getPrevNode();
  auto [first, why] = refused.front();
  InFlightDiagnostic error = emitError(first->getLoc())
                             << "'" << first->getName()
                             << "' has no kernel on this target: " << why;
  for (auto &[op, reason] : refused.drop_front().take_front(kShown))
    error.attachNote(op->getLoc()) << "'" << op->getName() << "' has none either: " << reason;
  if (refused.size() > kShown + 1)
    error.attachNote(first->getLoc()) << "and " << refused.size() - kShown - 1 << " more";
  return error;
}

struct SplitClustersPass : shale::impl::SplitClustersPassBase<SplitClustersPass> {
  using SplitClustersPassBase::SplitClustersPassBase;

  void runOnOperation() override {
    const Target *target = targetOf(getOperation());
    if (!target)
      return signalPassFailure();
    SmallVector<Refused> refused = findRefused(getOperation(), *target);
    if (split(refused, *target))
      refused = findRefused(getOperation(), *target);
    if (failed(report(refused)))
      signalPassFailure();
  }
};

} // namespace
