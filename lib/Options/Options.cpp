//===- Options.cpp - What follows from the flags of shalec ----------------===//
#include "lib/Options/Options.h"
#include "lib/Options/Knobs.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Threading.h"

using namespace shale;
using llvm::StringRef;

void CompileOptions::chooseShard() {
  if (!typed.count("shard") && mesh.ranksThat(dist::splitsState) == 1)
    shard = Sharding::None;
}

MemoryLimit CompileOptions::limit() const {
  return memoryLimit.on(machine->oneMemory || !(planOnly || !why.empty()));
}

int64_t CompileOptions::threadsPerRank() const {
  if (threads > 0)
    return threads;
  return std::max<int64_t>(1, llvm::hardware_concurrency().compute_thread_count() / mesh.ranks());
}

int64_t CompileOptions::reductionBucket() const {
  return bucketSize.bytes.value_or(defaultBucketBytes(strategyOf(shard)));
}

bool CompileOptions::compares(StringRef flag) const {
  return llvm::any_of(compare,
                      [&](const Comparison &each) { return each.knob->flag->name == flag; });
}

StringRef CompileOptions::typedText(StringRef flag) const {
  for (const auto &[name, value] : flags)
    if (name == flag)
      return value;
  return "";
}
