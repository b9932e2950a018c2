//===- CollectiveKind.h - The kinds of collectives ------------------------===//
#ifndef SHALE_INTERFACES_COLLECTIVEKIND_H
#define SHALE_INTERFACES_COLLECTIVEKIND_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>

namespace shale {

/// The kinds of include/shale/Collectives.def, with the numbers of the runtime.
enum class CollectiveKind {
#define SHALE_COLLECTIVE(NAME, Name, text, number, sends, receives, sums) Name = number,
#include "shale/Collectives.def"
#undef SHALE_COLLECTIVE
};

/// One row of the file.
struct CollectiveTraits {
  CollectiveKind kind;
  llvm::StringLiteral name; ///< "all-gather"
  bool sendsAll, receivesAll, sums;
};

inline constexpr CollectiveTraits kCollectives[] = {
#define SHALE_COLLECTIVE(NAME, Name, text, number, sends, receives, sums)                          \
  {CollectiveKind::Name, llvm::StringLiteral(text), sends != 0, receives != 0, sums != 0},
#include "shale/Collectives.def"
#undef SHALE_COLLECTIVE
};

/// Whether rows are in the order of their numbers.
constexpr bool areInOrder() {
  int64_t number = 0;
  for (const CollectiveTraits &each : kCollectives)
    if (int64_t(each.kind) != number++)
      return false;
  return true;
}
static_assert(areInOrder(), "rows of Collectives.def are numbered from 0 on");

constexpr const CollectiveTraits &traitsOf(CollectiveKind kind) { return kCollectives[int(kind)]; }

/// Returns "all-gather".
inline llvm::StringRef nameOf(CollectiveKind kind) { return traitsOf(kind).name; }

/// Whether the operand has a slice for each rank.
constexpr bool sendsAll(CollectiveKind kind) { return traitsOf(kind).sendsAll; }
/// Whether the result has a slice of each rank.
constexpr bool receivesAll(CollectiveKind kind) { return traitsOf(kind).receivesAll; }
/// Whether elements of all ranks are added.
constexpr bool sums(CollectiveKind kind) { return traitsOf(kind).sums; }
/// Whether the result is larger than the operand, which is a slice of it.
constexpr bool gathers(CollectiveKind kind) { return receivesAll(kind) && !sendsAll(kind); }
/// Whether the result is one slice of what the operand has for all ranks.
constexpr bool scatters(CollectiveKind kind) { return sendsAll(kind) && !receivesAll(kind); }
/// Whether operand and result are the same value, before and after a sum.
constexpr bool keepsShape(CollectiveKind kind) { return !sendsAll(kind) && !receivesAll(kind); }

/// Whether the value of one rank becomes that of another one.
constexpr bool passesOn(CollectiveKind kind) { return keepsShape(kind) && !sums(kind); }
/// Whether the result may lie in the operand's buffer.
constexpr bool worksInPlace(CollectiveKind kind) { return keepsShape(kind) && sums(kind); }

/// Returns the elements that one of `ranks` ranks sends for a call with `count` elements, as
/// Collectives.def says.
constexpr int64_t sentElements(CollectiveKind kind, int64_t count, int64_t ranks) {
  if (ranks <= 1)
    return 0;
  if (passesOn(kind))
    return count;
  return (ranks - 1) * (keepsShape(kind) ? 2 * ((count + ranks - 1) / ranks) : count);
}

} // namespace shale

#endif // SHALE_INTERFACES_COLLECTIVEKIND_H
