//===- MeshSpec.h - A mesh as people write it -----------------------------===//
#ifndef SHALE_SUPPORT_MESHSPEC_H
#define SHALE_SUPPORT_MESHSPEC_H

#include "dialects/dist/Dist.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>

namespace shale {

/// Most ranks that a mesh may have.
inline constexpr int64_t kMostRanks = 1 << 20;

/// Axes, their kinds and sizes; the last varies fastest.
struct MeshSpec {
  llvm::SmallVector<std::string> names;
  llvm::SmallVector<dist::AxisKind> kinds;
  llvm::SmallVector<int64_t> sizes;

  int64_t ranks() const;
  /// Ranks that share out the batch.
  int64_t dataRanks() const;
  /// Whether there is an axis of this kind, of whatever size.
  bool has(dist::AxisKind kind) const { return llvm::is_contained(kinds, kind); }
  /// Product of the sizes of all axes of this kind.
  int64_t ranksOf(dist::AxisKind kind) const;
};

/// Parses `replica=2,fsdp=4`, or with names of one's own `hosts:replica=2,gpus:shard=4`: NAME=SIZE or NAME:KIND=SIZE, separated
/// by commas. The names replica, fsdp and tp have the kinds replica, shard and tensor. Returns an error, or an empty string.
std::string parseMesh(llvm::StringRef text, MeshSpec &mesh);

} // namespace shale

#endif // SHALE_SUPPORT_MESHSPEC_H
