//===- MergeTables.h - Adds the entries of one table to another -----------===//
#ifndef SHALE_SUPPORT_MERGETABLES_H
#define SHALE_SUPPORT_MERGETABLES_H

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

namespace shale {

/// Adds the entries of `from` to `into`. Adds none and fails if both have a key; the error reads
/// "KIND KEY has VALUE already".
template <typename T>
llvm::Error mergeTables(llvm::StringMap<T> &into, const llvm::StringMap<T> &from,
                        llvm::StringRef kind, llvm::StringRef value) {
  for (const auto &entry : from)
    if (into.count(entry.getKey()))
      return llvm::createStringError(kind + " " + entry.getKey() + " has " + value + " already");
  for (const auto &entry : from)
    into[entry.getKey()] = entry.getValue();
  return llvm::Error::success();
}

} // namespace shale

#endif // SHALE_SUPPORT_MERGETABLES_H
