// Vectorized conversion of 16-bit floats: with AVX2 and F16C if the CPU has them, as
// every program's target requires; else element by element.
#include "runtime/device/host/Floats16.h"

#if defined(__x86_64__)
#include <cstring>
#include <immintrin.h>
#endif

namespace shale::rt {

namespace {

#if defined(__x86_64__)
#define SHALE_VECTORS __attribute__((target("avx2,f16c")))

bool hasVectors() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return has;
}

/// Returns the number of elements that were converted, a multiple of 16.
SHALE_VECTORS int64_t widenVectors(bool bf16, const uint16_t *source, float *target,
                                   int64_t count) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16)
    for (int64_t j = i; j < i + 16; j += 8) {
      __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i *>(source + j));
      __m256 wide = bf16 ? _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))
                         : _mm256_cvtph_ps(bits);
      _mm256_storeu_ps(target + j, wide);
    }
  return i;
}

/// Rounds eight f32 to bf16, in 32 bits each; a NaN stays a NaN.
SHALE_VECTORS __m256i roundToBf16(__m256 value) {
  __m256i bits = _mm256_castps_si256(value);
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  __m256i isNan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, isNan), 16);
}

SHALE_VECTORS int64_t narrowVectors(bool bf16, const float *source, uint16_t *target,
                                    int64_t count) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    __m256 low = _mm256_loadu_ps(source + i), high = _mm256_loadu_ps(source + i + 8);
    __m256i both;
    if (bf16) {
      // Packing works within 128-bit lanes: permute these into order.
      both = _mm256_permute4x64_epi64(_mm256_packus_epi32(roundToBf16(low), roundToBf16(high)),
                                      _MM_SHUFFLE(3, 1, 2, 0));
    } else {
      constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
      both = _mm256_set_m128i(_mm256_cvtps_ph(high, nearest), _mm256_cvtps_ph(low, nearest));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(target + i), both);
  }
  return i;
}
#else
bool hasVectors() { return false; }
int64_t widenVectors(bool, const uint16_t *, float *, int64_t) { return 0; }
int64_t narrowVectors(bool, const float *, uint16_t *, int64_t) { return 0; }
#endif

} // namespace

void widen(Dtype type, const uint16_t *source, float *target, int64_t count) {
  bool bf16 = type == Dtype::BF16;
  int64_t i = hasVectors() ? widenVectors(bf16, source, target, count) : 0;
  for (; i < count; ++i)
    target[i] = bf16 ? bf16ToFloat(source[i]) : f16ToFloat(source[i]);
}

void narrow(Dtype type, const float *source, uint16_t *target, int64_t count) {
  bool bf16 = type == Dtype::BF16;
  int64_t i = hasVectors() ? narrowVectors(bf16, source, target, count) : 0;
  for (; i < count; ++i)
    target[i] = bf16 ? floatToBf16(source[i]) : floatToF16(source[i]);
}

} // namespace shale::rt

/// Rounds a float to bfloat, which is returned in the low half of a float's register, as the x86-64
/// ABI has it. LLVM 22 calls it for a bfloat that crosses blocks of a kernel; libgcc has it since
/// version 13.
extern "C" __attribute__((weak)) float __truncsfbf2(float value) {
  uint32_t bits = shale::rt::floatToBf16(value);
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}
