//===- MeshSpec.h - Parser for the mesh option ----------------------------===//
#ifndef SHALE_SUPPORT_MESHSPEC_H
#define SHALE_SUPPORT_MESHSPEC_H

#include "dialects/dist/Dist.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>

namespace shale {

/// The largest number of ranks in a mesh.
inline constexpr int64_t kMostRanks = 1 << 20;

/// The axes of a mesh with their kinds and sizes; the last axis varies fastest. By default one
/// rank.
struct MeshSpec {
  llvm::SmallVector<std::string> names{"fsdp"};
  llvm::SmallVector<dist::AxisKind> kinds{dist::AxisKind::Shard};
  llvm::SmallVector<int64_t> sizes{1};

  int64_t ranks() const;
  /// Number of ranks that the batch is split over.
  int64_t dataRanks() const { return ranksThat(dist::splitsInputs); }
  /// Whether there is an axis whose roles a predicate of Axes.h holds for, of any size.
  bool hasAxisThat(dist::RolesPredicate holds) const;
  /// Product of the sizes of these axes.
  int64_t ranksThat(dist::RolesPredicate holds) const;
};

/// Parses NAME=SIZE or NAME:KIND=SIZE, separated by commas: `replica=2,fsdp=4`, or with custom
/// names `hosts:replica=2,gpus:shard=4`. The names replica, fsdp, tp and ep have the kinds replica,
/// shard, tensor and expert. Returns an error, or an empty string.
std::string parseText(llvm::StringRef text, MeshSpec &mesh);
std::string textOf(const MeshSpec &mesh);

} // namespace shale

#endif // SHALE_SUPPORT_MESHSPEC_H
