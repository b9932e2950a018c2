// Vectorized conversion between 16-bit floats and f32.
#ifndef SHALE_RUNTIME_DEVICE_HOST_FLOATS16_H
#define SHALE_RUNTIME_DEVICE_HOST_FLOATS16_H

#include "runtime/core/Types.h"

namespace shale::rt {

/// Convert `count` elements from BF16 or F16 to f32, exactly, and back, rounding to
/// nearest even.
void widen(Dtype type, const uint16_t *source, float *target, int64_t count);
void narrow(Dtype type, const float *source, uint16_t *target, int64_t count);

} // namespace shale::rt

#endif
