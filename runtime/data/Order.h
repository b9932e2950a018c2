// The order in which windows of a token file are read.
#ifndef SHALE_RUNTIME_DATA_ORDER_H
#define SHALE_RUNTIME_DATA_ORDER_H

#include <cstdint>

namespace shale::rt {

/// Returns the window at a position of an epoch: a bijection of [0, size) that
/// depends on (seed, epoch) only. It needs no memory, so any position of any epoch
/// is computed directly. test/e2e/run/rows.py implements this definition:
///
///   All numbers have 64 bits and wrap around.
///   mix(x):  x += 0x9e3779b97f4a7c15
///            x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9
///            x = (x ^ x >> 27) * 0x94d049bb133111eb
///            x ^ x >> 31
///   b        the least number, at least 1, with 4^b >= size
///   key      mix(mix(seed) ^ epoch)
///   once(v)  left, right = v >> b, v mod 2^b
///            for r = 0, 1, 2, 3:
///              left, right = right, left ^ (mix(key ^ r << 56 ^ right) mod 2^b)
///            left << b | right
///   window   once(position); once() is repeated until the result is below size
inline int64_t shuffled(uint64_t seed, uint64_t epoch, int64_t size, int64_t position) {
  auto mix = [](uint64_t x) { // splitmix64's finalizer
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  };
  int bits = 1;
  while (bits < 31 && (int64_t(1) << (2 * bits)) < size)
    ++bits;
  uint64_t mask = (uint64_t(1) << bits) - 1;
  uint64_t key = mix(mix(seed) ^ epoch);
  uint64_t value = position;
  do {
    uint64_t left = value >> bits, right = value & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      uint64_t next = left ^ (mix(key ^ (round << 56) ^ right) & mask);
      left = right;
      right = next;
    }
    value = left << bits | right;
  } while (value >= static_cast<uint64_t>(size));
  return static_cast<int64_t>(value);
}

} // namespace shale::rt

#endif
