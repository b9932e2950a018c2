//===- Storage.h - How groups of parameters are stored --------------------===//
//
// Decides how each group of parameters is stored: which slices each rank holds, how uses read the
// parameters, and which collectives sum the gradients. The decision depends on the module's
// strategy and wire types. It is an attribute of the group, which UnitRewriter executes.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PASSES_SHARDING_STORAGE_H
#define SHALE_PASSES_SHARDING_STORAGE_H

#include "dialects/dist/Dist.h"

namespace shale {
inline namespace sharding {

/// The choices of a module that apply to all groups.
struct StoragePolicy {
  dist::Strategy strategy = dist::Strategy::None;
  /// The axis over which state is split at rest, a joint one if several axes of the mesh have that
  /// role; null if none has. Groups whose parameters are split along some of its members when they
  /// are used are split over the others.
  mlir::StringAttr axis;
  /// Whether gathered units stay gathered until the end of backward.
  bool keepGathered = false;
  /// Whether gradients are summed over a step's micro-batches unreduced, and reduced once per step.
  bool reduceOnce = false;
  /// How gathers are encoded; none: not at all.
  std::optional<dist::Encoding> gather;
  /// The 16-bit float type in which parameters of f32 are gathered; null: as they are used.
  mlir::Type rounds;
  /// How gradients are encoded when they are summed over axes that split the batch.
  std::optional<dist::Encoding> sum;

  /// Reads the module's attributes. Declares the joint axis. Fails after an error if the strategy
  /// needs an axis that the mesh does not have.
  static mlir::FailureOr<StoragePolicy> read(mlir::ModuleOp module, dist::MeshOp mesh);

  /// Whether gathered units are gathered for the backward pass again.
  bool gathersAgain() const { return !keepGathered && dist::splitsParameters(strategy); }
};

/// The parameters or buffers of one group.
struct StoredKind {
  mlir::Type type;   ///< as stored
  mlir::Type used;   ///< to which all uses but the update cast it; null if they differ
  mlir::Type reduce; ///< of gradients, when they are summed
  bool trained = false, buffer = false;
  llvm::SmallVector<llvm::StringRef, 2> axes; ///< that split the parameters when they are used
};

/// The type in which a group is gathered, and how it is stored.
struct StoragePlan {
  mlir::Type wire;
  dist::StorageAttr storage;
};

/// Decides how groups of a kind are stored on the mesh.
StoragePlan planStorage(const StoragePolicy &policy, dist::MeshOp mesh, const StoredKind &kind);

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_STORAGE_H
