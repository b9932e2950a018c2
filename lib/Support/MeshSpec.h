//===- MeshSpec.h - A mesh as people write it -----------------------------===//
#ifndef SHALE_SUPPORT_MESHSPEC_H
#define SHALE_SUPPORT_MESHSPEC_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>

namespace shale {

/// Most ranks that a mesh may have.
inline constexpr int64_t kMostRanks = 1 << 20;

/// Axes and sizes, the last varies fastest.
struct MeshSpec {
  llvm::SmallVector<std::string> names;
  llvm::SmallVector<int64_t> sizes;
};

/// Parses `replica=2,fsdp=4`. Axes are replica, fsdp and tp: compiler and runtime
/// (`isDataAxis`) tell by the name which of them share out the batch. Returns what is
/// wrong, or an empty string.
std::string parseMesh(llvm::StringRef text, MeshSpec &mesh);

} // namespace shale

#endif // SHALE_SUPPORT_MESHSPEC_H
