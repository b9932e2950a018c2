//===- Words.h - Shale's flags for those of other frameworks --------------===//
#ifndef SHALE_DRIVER_WORDS_H
#define SHALE_DRIVER_WORDS_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace shale {

/// Returns Shale's flag for a flag of FSDP, accelerate, DeepSpeed, FairScale or torchtitan
/// ("sharding_strategy" -> "--shard none|optimizer|grad|full"), or a hint if Shale has no such
/// flag; an empty string for an unknown flag. `word` is as typed: in any case, with - or _,
/// with or without a section ("training.").
llvm::StringRef flagForForeignWord(llvm::StringRef word);

/// Returns what to write instead of another framework's value: "--shard full" for
/// "--shard FULL_SHARD"; an empty string for an unknown value.
std::string flagForForeignValue(llvm::StringRef flag, llvm::StringRef value);

/// Whether a flag belongs to the programs that shalec emits ("--steps").
bool isProgramFlag(llvm::StringRef flag);

} // namespace shale

#endif // SHALE_DRIVER_WORDS_H
