// Matmuls of the emulated cuBLASLt.
#ifndef SHALE_TEST_EMULATION_BLASMATMUL_H
#define SHALE_TEST_EMULATION_BLASMATMUL_H

#include <cstdint>

namespace shale::stub {

/// C = A B for matrices of f32 without gaps, row by row: A is m x k, B k x n, C m x n. The sum over
/// k is that of `parts` sums over consecutive parts, so that algorithms differ in their bits.
void multiply(int64_t m, int64_t n, int64_t k, int parts, const float *a, const float *b, float *c);

/// The same with the sum of each part rounded.
void multiplyInParts(int64_t m, int64_t n, int64_t k, int parts, const float *a, const float *b,
                     float *c, float (*round)(float));

} // namespace shale::stub

#endif
