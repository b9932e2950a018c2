//===- Arena.cpp - Offsets for buffers with lifetimes ---------------------===//
#include "lib/Analysis/Arena.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

using namespace shale;

namespace {
/// Which of the gaps that fit a buffer is used: the smallest, or the lowest.
enum class Fit { Best, First };
} // namespace

/// Places lifetimes in the given order.
static ArenaLayout layOutInOrder(llvm::ArrayRef<Lifetime> lifetimes, llvm::ArrayRef<int64_t> order,
                                 Fit fit, int64_t alignment) {
  struct Placed {
    int64_t from, to, begin, end;
  };
  ArenaLayout layout;
  layout.offsets.assign(lifetimes.size(), 0);
  std::vector<Placed> placed; // by `from`
  placed.reserve(order.size());
  for (int64_t index : order) {
    const Lifetime &lifetime = lifetimes[index];
    int64_t bytes = llvm::alignTo(lifetime.bytes, alignment);
    int64_t best = -1, smallest = INT64_MAX, end = 0;
    for (const Placed &other : placed) {
      if (other.begin > lifetime.end || lifetime.begin > other.end)
        continue;
      if (other.from - end >= bytes && other.from - end < smallest) {
        smallest = other.from - end;
        best = end;
        if (fit == Fit::First)
          break;
      }
      end = std::max(end, other.to);
    }
    int64_t from = best >= 0 ? best : end;
    layout.offsets[index] = from;
    layout.bytes = std::max(layout.bytes, from + bytes);
    auto place = llvm::upper_bound(
        placed, from, [](int64_t offset, const Placed &other) { return offset < other.from; });
    placed.insert(place, {from, from + bytes, lifetime.begin, lifetime.end});
  }
  return layout;
}

/// Places the buffer with the highest end first in the next attempt, which often
/// lets it move below the buffers that blocked it. The number of attempts is bounded.
static void improve(ArenaLayout &best, llvm::SmallVector<int64_t> order, Fit fit,
                    llvm::ArrayRef<Lifetime> lifetimes, int64_t least, int64_t alignment) {
  constexpr int64_t work = 30000000, most = 32;
  int64_t count = std::max<int64_t>(1, lifetimes.size());
  int64_t attempts = std::min(most, work / (count * count));
  ArenaLayout layout = best;
  for (int64_t i = 0; i < attempts && best.bytes > least; ++i) {
    auto top = std::find_if(order.begin(), order.end(), [&](int64_t index) {
      return layout.offsets[index] + int64_t(llvm::alignTo(lifetimes[index].bytes, alignment)) ==
             layout.bytes;
    });
    if (top == order.begin() || top == order.end())
      return;
    std::rotate(order.begin(), top, top + 1);
    layout = layOutInOrder(lifetimes, order, fit, alignment);
    if (layout.bytes < best.bytes)
      best = layout;
  }
}

ArenaLayout shale::layOutArena(llvm::ArrayRef<Lifetime> lifetimes, int64_t alignment) {
  llvm::SmallVector<int64_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0);
  auto length = [&](int64_t i) { return double(lifetimes[i].end - lifetimes[i].begin + 1); };
  // Ties keep the order of the schedule, so that the result is deterministic.
  const std::function<double(int64_t)> keys[] = {
      [&](int64_t i) { return double(lifetimes[i].bytes); },
      [&](int64_t i) { return double(lifetimes[i].bytes) * length(i); },
      [&](int64_t i) { return length(i); },
  };
  int64_t least = maxLiveBytes(lifetimes, alignment);
  struct Attempt {
    ArenaLayout layout;
    llvm::SmallVector<int64_t> order;
    Fit fit;
  };
  llvm::SmallVector<Attempt> attempts;
  for (const auto &key : keys)
    for (Fit fit : {Fit::Best, Fit::First}) {
      llvm::SmallVector<int64_t> sorted = order;
      std::stable_sort(sorted.begin(), sorted.end(),
                       [&](int64_t a, int64_t b) { return key(a) > key(b); });
      ArenaLayout layout = layOutInOrder(lifetimes, sorted, fit, alignment);
      if (layout.bytes == least)
        return layout;
      attempts.push_back({std::move(layout), std::move(sorted), fit});
    }
  auto less = [](const Attempt &a, const Attempt &b) { return a.layout.bytes < b.layout.bytes; };
  // A layout within 1 % of the lower bound is good enough.
  if (Attempt &attempt = *llvm::min_element(attempts, less);
      attempt.layout.bytes - least <= least / 100)
    return attempt.layout;
  for (Attempt &attempt : attempts)
    improve(attempt.layout, attempt.order, attempt.fit, lifetimes, least, alignment);
  return llvm::min_element(attempts, less)->layout;
}

int64_t shale::maxLiveBytes(llvm::ArrayRef<Lifetime> lifetimes, int64_t alignment, int64_t *at) {
  std::map<int64_t, int64_t> changes;
  for (const Lifetime &lifetime : lifetimes) {
    int64_t bytes = llvm::alignTo(lifetime.bytes, alignment);
    changes[lifetime.begin] += bytes;
    changes[lifetime.end + 1] -= bytes;
  }
  int64_t live = 0, most = 0;
  for (auto [position, change] : changes) {
    live += change;
    if (live > most) {
      most = live;
      if (at)
        *at = position;
    }
  }
  return most;
}
