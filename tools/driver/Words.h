//===- Words.h - Shale's flags for those of other frameworks --------------===//
#ifndef SHALE_DRIVER_WORDS_H
#define SHALE_DRIVER_WORDS_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace shale {

/// Returns what Shale has for a flag of FSDP, accelerate, DeepSpeed, FairScale or torchtitan, as
/// typed: "--sharding_strategy is not a flag of Shale: use --shard none|optimizer|grad|full". Flags
/// of the programs that shalec makes are among those that it answers. An empty string for an
/// unknown flag.
std::string answerToForeignFlag(llvm::StringRef word);

/// Returns what Shale has for another framework's value of a flag, "'FULL_SHARD': in Shale, use
/// --shard full", or why it has nothing; an empty string for an unknown value.
std::string answerToForeignValue(llvm::StringRef flag, llvm::StringRef value);

} // namespace shale

#endif // SHALE_DRIVER_WORDS_H
