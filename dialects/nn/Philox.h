//===- Philox.h - Counter-based random numbers -----------------------------===//
//
// Philox-4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy
// as 1, 2, 3", SC 2011. Scalar version; kernels compute the same on vectors.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_NN_PHILOX_H
#define SHALE_NN_PHILOX_H

#include <array>
#include <cstdint>

namespace shale::nn {

inline constexpr uint32_t kPhiloxMultipliers[2] = {0xD2511F53u, 0xCD9E8D57u};
inline constexpr uint32_t kPhiloxWeyl[2] = {0x9E3779B9u, 0xBB67AE85u};
inline constexpr int kPhiloxRounds = 10;

using PhiloxWords = std::array<uint32_t, 4>;

inline PhiloxWords philox(PhiloxWords x, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    uint64_t a = uint64_t(kPhiloxMultipliers[0]) * x[0];
    uint64_t b = uint64_t(kPhiloxMultipliers[1]) * x[2];
    x = {uint32_t(b >> 32) ^ x[1] ^ key[0], uint32_t(b), uint32_t(a >> 32) ^ x[3] ^ key[1],
         uint32_t(a)};
    key = {key[0] + kPhiloxWeyl[0], key[1] + kPhiloxWeyl[1]};
  }
  return x;
}

/// The inputs of a random number, apart from the element's number; see nn.dropout.
struct RandomPlace {
  uint64_t seed, step, microbatch, id;
  PhiloxWords counterOf(uint64_t element) const {
    return {uint32_t(element), uint32_t(element >> 32 | microbatch << 16), uint32_t(step),
            uint32_t(id)};
  }
  std::array<uint32_t, 2> key() const { return {uint32_t(seed), uint32_t(seed >> 32)}; }
};

/// An element is kept where its word is at least this.
inline uint32_t dropThreshold(double ratio) { return uint32_t(ratio * 4294967296.0); }

} // namespace shale::nn

#endif // SHALE_NN_PHILOX_H
