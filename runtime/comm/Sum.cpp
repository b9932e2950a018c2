// Sums in rank order: the bits do not depend on which message came first.
#include "runtime/comm/Collectives.h"
#include "runtime/core/Error.h"
#include "runtime/core/Types.h"

#include <algorithm>

namespace shale::rt {

namespace {
template <typename T>
void sumPlain(const void *const *sources, int count, void *target, int64_t elements) {
  constexpr int64_t width = 1024;
  T sum[width];
  for (int64_t start = 0; start < elements; start += width) {
    int64_t n = std::min(width, elements - start);
    const T *first = static_cast<const T *>(sources[0]) + start;
    std::copy(first, first + n, sum);
    for (int s = 1; s < count; ++s) {
      const T *source = static_cast<const T *>(sources[s]) + start;
      for (int64_t i = 0; i < n; ++i)
        sum[i] += source[i];
    }
    std::copy(sum, sum + n, static_cast<T *>(target) + start);
  }
}

template <float (*Widen)(uint16_t), uint16_t (*Narrow)(float)>
void sum16BitFloats(const void *const *sources, int count, void *target, int64_t elements) {
  for (int64_t i = 0; i < elements; ++i) {
    float sum = Widen(static_cast<const uint16_t *>(sources[0])[i]);
    for (int s = 1; s < count; ++s)
      sum += Widen(static_cast<const uint16_t *>(sources[s])[i]);
    static_cast<uint16_t *>(target)[i] = Narrow(sum);
  }
}
} // namespace

void sumInOrder(ShaleType type, const void *const *sources, int count, void *target,
                int64_t elements) {
  switch (type) {
  case SHALE_F32:
    return sumPlain<float>(sources, count, target, elements);
  case SHALE_F64:
    return sumPlain<double>(sources, count, target, elements);
  case SHALE_I64:
    return sumPlain<int64_t>(sources, count, target, elements);
  case SHALE_I32:
    return sumPlain<int32_t>(sources, count, target, elements);
  case SHALE_BF16:
    return sum16BitFloats<bf16ToFloat, floatToBf16>(sources, count, target, elements);
  case SHALE_F16:
    return sum16BitFloats<f16ToFloat, floatToF16>(sources, count, target, elements);
  case SHALE_BOOL:
  case SHALE_F8_E4M3: // operands of matmuls only
  case SHALE_F8_E5M2:
  case SHALE_INT8_BLOCKS: // kernels decode and add them
  case SHALE_NO_TYPE:
    break;
  }
  die(SHALE_EXIT_INTERNAL, "a collective sums values of a type that has no sum");
}

} // namespace shale::rt
