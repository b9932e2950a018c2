// Conversions between f32 and the 16-bit floats, which round to nearest, ties to even.
#ifndef SHALE_TEST_EMULATION_FLOATS_H
#define SHALE_TEST_EMULATION_FLOATS_H

#include <cmath>
#include <cstdint>
#include <cstring>

namespace shale::stub {

inline uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float floatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

struct BFloat {
  uint16_t bits;

  operator float() const { return floatOf(uint32_t(bits) << 16); }
  static BFloat of(float value) {
    uint32_t from = bitsOf(value);
    if (std::isnan(value))
      return {uint16_t((from >> 16) | 0x40)};
    return {uint16_t((from + 0x7fff + ((from >> 16) & 1)) >> 16)};
  }
};

struct Half {
  uint16_t bits;

  operator float() const {
    uint32_t sign = uint32_t(bits & 0x8000) << 16, rest = bits & 0x7fff;
    if (rest >= 0x7c00) // infinite or NaN
      return floatOf(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest < 0x400) // subnormal: a multiple of 2^-24
      return floatOf(sign | bitsOf(float(rest) * 0x1p-24f));
    return floatOf(sign | ((rest << 13) + ((127 - 15) << 23)));
  }
  static Half of(float value) {
    uint32_t from = bitsOf(value), rest = from & 0x7fffffff;
    auto sign = uint16_t(from >> 16 & 0x8000);
    if (rest > 0x7f800000)
      return {uint16_t(sign | 0x7e00)};
    if (rest >= 0x477ff000) // rounds to 65536 or more
      return {uint16_t(sign | 0x7c00)};
    if (rest < 0x38800000) // subnormal: the nearest multiple of 2^-24
      return {uint16_t(sign | uint16_t(std::nearbyint(floatOf(rest) * 0x1p24f)))};
    uint32_t moved = rest - ((127 - 15) << 23);
    return {uint16_t(sign | (moved + 0xfff + ((moved >> 13) & 1)) >> 13)};
  }
};

/// A number of `Exponent` bits of exponent and the rest of seven bits of fraction. With `Finite`
/// only a number of all ones is special: NaN.
template <int Exponent, bool Finite> struct Byte {
  uint8_t bits;

  operator float() const {
    constexpr int fraction = 7 - Exponent, bias = (1 << (Exponent - 1)) - 1;
    int exponent = (bits & 0x7f) >> fraction, rest = bits & ((1 << fraction) - 1);
    bool top = exponent == (1 << Exponent) - 1;
    if (Finite ? (bits & 0x7f) == 0x7f : top && rest)
      return NAN;
    float size = !Finite && top ? INFINITY
                 : exponent ? std::ldexp(float(rest + (1 << fraction)), exponent - bias - fraction)
                            : std::ldexp(float(rest), 1 - bias - fraction);
    return bits & 0x80 ? -size : size;
  }
};
using E4M3 = Byte<4, true>;
using E5M2 = Byte<5, false>;

/// A value as tensor cores see it that round to TF32.
inline float toTF32(float value) {
  uint32_t bits = bitsOf(value);
  return std::isfinite(value) ? floatOf((bits + 0xfff + ((bits >> 13) & 1)) & ~0x1fffu) : value;
}

/// `value` in the type `To`: float, BFloat or Half.
template <typename To> To narrow(float value) { return To::of(value); }
template <> inline float narrow<float>(float value) { return value; }
/// `value` as the type `To` holds it.
template <typename To> float rounded(float value) { return narrow<To>(value); }

} // namespace shale::stub

#endif
