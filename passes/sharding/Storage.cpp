//===- Storage.cpp - How groups of parameters are stored ------------------===//
#include "passes/sharding/Storage.h"
#include "dialects/nn/NN.h"
#include "mlir/IR/Builders.h"
#include "passes/sharding/TensorLayout.h"

using namespace mlir;

namespace shale {
inline namespace sharding {

FailureOr<StoragePolicy> StoragePolicy::read(ModuleOp module, dist::MeshOp mesh) {
  StoragePolicy policy;
  policy.strategy = dist::getStrategy(module);
  policy.keepGathered = module->hasAttr(dist::kKeepGatheredAttr);
  // If gradients are whole at rest, reducing each micro-batch saves no memory.
  policy.reduceOnce =
      module->hasAttr(dist::kReduceOnceAttr) || !dist::splitsGradients(policy.strategy);
  SmallVector<StringRef> axes = mesh.getAxesThat(dist::splitsState);
  if (axes.empty() && dist::splitsOptimizer(policy.strategy)) {
    mesh.emitError("strategy '") << dist::stringifyStrategy(policy.strategy)
                                 << "' needs an axis of kind shard, which the mesh does not have";
    return failure();
  }
  if (!axes.empty()) {
    // Axes of one rank are left out, unless all are.
    SmallVector<StringRef> several;
    llvm::copy_if(axes, std::back_inserter(several), [&](StringRef a) { return mesh.splits(a); });
    if (!several.empty())
      axes = several;
    StringRef axis = axes.size() == 1 ? axes.front() : mesh.join(axes);
    policy.axis = StringAttr::get(module.getContext(), axis);
  }
  Attribute gathers = policy.axis && mesh.splits(policy.axis)
                          ? module->getAttr(dist::kQuantizeGathersAttr)
                          : Attribute();
  if (auto type = dyn_cast_or_null<TypeAttr>(gathers))
    policy.rounds = type.getValue();
  else if (gathers)
    policy.gather = cast<dist::EncodingAttr>(gathers).getValue();
  auto splits = [&](StringRef axis) { return mesh.splits(axis); };
  if (auto sums = module->getAttrOfType<dist::EncodingAttr>(dist::kQuantizeReductionsAttr);
      sums && llvm::any_of(mesh.getAxesThat(dist::sumsGradients), splits))
    policy.sum = sums.getValue();
  return policy;
}

/// Returns the collectives that sum gradients, in order. Tensor axes come first: groups that are
/// partial on them are small, and few axes remain to be bucketed. Then the axis over which the
/// update is split: the others reduce less data. Gradients of experts that an axis splits are whole
/// sums on it. `used`: the axes that split the parameters when they are used.
static SmallVector<Attribute> planSums(const StoragePolicy &policy, dist::MeshOp mesh,
                                       ArrayRef<StringRef> used, StringAttr update, bool encodes) {
  Builder builder(mesh.getContext());
  SmallVector<Attribute> steps;
  auto add = [&](ArrayRef<StringRef> axes, bool scatter, std::optional<dist::Encoding> how) {
    steps.push_back(dist::ReductionStepAttr::get(
        mesh.getContext(), builder.getStrArrayAttr(axes), scatter,
        how ? dist::EncodingAttr::get(mesh.getContext(), *how) : dist::EncodingAttr()));
  };
  SmallVector<StringRef> tensor, data;
  SmallVector<StringRef, 2> own;
  if (update)
    own = dist::MeshOp::membersOf(update);
  for (StringRef axis : axesByPriority(mesh))
    if (!llvm::is_contained(own, axis) &&
        !(mesh.splitsExperts(axis) && llvm::is_contained(used, axis)))
      (mesh.sumsGradients(axis) ? data : tensor).push_back(axis);
  std::optional<dist::Encoding> encoding = encodes ? policy.sum : std::nullopt;
  if (!tensor.empty())
    add(tensor, /*scatter=*/false, std::nullopt);
  if (update)
    add(own, /*scatter=*/true, encoding);
  for (StringRef axis : data)
    add(axis, /*scatter=*/false, encoding);
  return steps;
}

StoragePlan planStorage(const StoragePolicy &policy, dist::MeshOp mesh, const StoredKind &kind) {
  MLIRContext *context = mesh.getContext();
  StoragePlan plan;
  StringAttr axis = dist::MeshOp::without(policy.axis, kind.axes);
  if (SmallVector<StringRef, 2> members; axis && axis != policy.axis) {
    members = dist::MeshOp::membersOf(axis);
    if (members.size() > 1)
      mesh.join(members);
  }
  bool splits = axis && mesh.splits(axis);
  plan.wire = kind.used && !kind.buffer ? kind.used : kind.type;
  bool splitsParameters = dist::splitsParameters(policy.strategy);
  bool splitsUpdate = kind.trained && dist::splitsOptimizer(policy.strategy);
  // Buffers are small and every rank reads them: they are whole everywhere. Parameters whose
  // gathers have a type or encoding of their own, and those that are stored in a wider type than
  // they are used in, are split by every strategy that splits something: uses read what is
  // gathered, or a copy.
  bool mayEncode = !kind.buffer && (splitsParameters || splitsUpdate);
  bool encodes = policy.gather && mayEncode && (kind.type.isF32() || is16BitFloat(kind.type));
  Type use = plan.wire;
  bool rounds = policy.rounds && mayEncode && kind.type.isF32() && plan.wire == kind.type;
  if (rounds)
    plan.wire = policy.rounds;
  bool widened = plan.wire != kind.type && !rounds && !encodes;
  bool copies = widened && !splitsParameters;
  bool atRest =
      splits && !kind.buffer &&
      (splitsParameters || encodes || rounds || (copies && dist::splitsOptimizer(policy.strategy)));
  bool gathers = atRest ? !copies : splitsParameters && plan.wire != kind.type;
  StringAttr none, update = splitsUpdate && splits ? axis : none;
  SmallVector<Attribute> steps;
  if (kind.trained)
    steps = planSums(policy, mesh, kind.axes, update, kind.reduce.isF32());
  plan.storage = dist::StorageAttr::get(
      context,
      copies    ? dist::Use::Copied
      : gathers ? dist::Use::Gathered
                : dist::Use::Stored,
      use, atRest ? axis : none, update, kind.trained && splits && !policy.reduceOnce ? axis : none,
      encodes ? dist::EncodingAttr::get(context, *policy.gather) : dist::EncodingAttr(),
      ArrayAttr::get(context, steps));
  return plan;
}

} // namespace sharding
} // namespace shale
