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

/// Returns a text that parseByteSize() reads: in MiB if it is a whole number of them.
std::string byteSizeText(int64_t bytes);

/// "1.25 GiB", "3.40 MiB", "12 B": two decimals, binary units; with a sign for negative ones.
std::string formatBytes(int64_t bytes);

/// Limits on each memory, or on the sum of both, in bytes. Absent means no limit.
struct MemoryLimit {
  std::optional<int64_t> device, host, sum;
  bool any() const { return device || host || sum; }
  /// Returns the limits on a machine: where device and host do not share one RAM, a size that names
  /// no memory limits the device's.
  MemoryLimit on(bool oneMemory) const {
    return oneMemory || !sum ? *this : MemoryLimit{sum, std::nullopt, std::nullopt};
  }
};

/// Parses "40GiB", a limit on the sum, or "device=80GiB,host=100GiB". Returns an error, or an empty
/// string.
std::string parseMemoryLimit(llvm::StringRef text, MemoryLimit &limit);

} // namespace shale

#endif // SHALE_SUPPORT_BYTESIZE_H
