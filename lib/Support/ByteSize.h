//===- ByteSize.h - Parsing and printing of byte sizes --------------------===//
#ifndef SHALE_SUPPORT_BYTESIZE_H
#define SHALE_SUPPORT_BYTESIZE_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace shale {

/// Parses a size such as "40GiB", "1.5GiB", "500MB" or "1024" to bytes. Returns
/// nothing if it is not a size or is too large.
std::optional<int64_t> parseByteSize(llvm::StringRef text);

/// "1.25 GiB", "3.40 MiB", "12 B": two decimals, binary units; with a sign for negative ones.
std::string formatBytes(int64_t bytes);

/// Limits on each memory space, or on the sum of both, in bytes. Absent means no limit.
struct MemoryLimit {
  std::optional<int64_t> device, host, sum;
  bool any() const { return device || host || sum; }
};

/// Parses "40GiB" or "device=80GiB,host=100GiB". A plain size limits the device's memory or,
/// if `oneMemory` (device and host share one RAM), the sum. Returns an error, or an empty
/// string.
std::string parseMemoryLimit(llvm::StringRef text, bool oneMemory, MemoryLimit &limit);

} // namespace shale

#endif // SHALE_SUPPORT_BYTESIZE_H
