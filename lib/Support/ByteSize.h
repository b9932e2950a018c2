//===- ByteSize.h - Sizes as people write them ----------------------------===//
#ifndef SHALE_SUPPORT_BYTESIZE_H
#define SHALE_SUPPORT_BYTESIZE_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace shale {

/// Bytes of "40GiB", "1.5GiB", "500MB" or "1024"; nothing if it is no size or
/// does not fit 63 bits.
std::optional<int64_t> parseByteSize(llvm::StringRef text);

/// "1.25 GiB", "3.40 MiB", "12 B": three digits, binary units; with a sign for negative ones.
std::string formatBytes(int64_t bytes);

/// A limit on each memory space, or on both together, in bytes; absent: none.
struct MemoryLimit {
  std::optional<int64_t> device, host, sum;
  bool any() const { return device || host || sum; }
};

/// Reads "40GiB" or "device=80GiB,host=100GiB". A plain size is one of the device's memory;
/// where both are one RAM, of their sum. Returns what is wrong, or an empty string.
std::string parseMemoryLimit(llvm::StringRef text, bool oneMemory, MemoryLimit &limit);

} // namespace shale

#endif // SHALE_SUPPORT_BYTESIZE_H
