//===- Words.h - Words of other frameworks, and Shale's for them ----------===//
#ifndef SHALE_DRIVER_WORDS_H
#define SHALE_DRIVER_WORDS_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace shale {

/// Shale's flag for a flag of FSDP, accelerate, DeepSpeed, FairScale or torchtitan
/// ("sharding_strategy" -> "--shard none|optimizer|grad|full"), or what to do without one;
/// an empty string for no such flag. Takes it as typed: of any case, with - or _, behind a
/// section ("training.").
llvm::StringRef flagForForeignWord(llvm::StringRef word);

/// What to write instead of a value of theirs: "--shard full" for "--shard FULL_SHARD"; an
/// empty string for a value that is not one of theirs.
std::string flagForForeignValue(llvm::StringRef flag, llvm::StringRef value);

/// Whether a flag is one of the programs that shalec makes ("--steps").
bool isProgramFlag(llvm::StringRef flag);

} // namespace shale

#endif // SHALE_DRIVER_WORDS_H
