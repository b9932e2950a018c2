//===- Footprint.h - Memory of libraries and the process per rank ---------===//
//
// All memory besides the state block and the arena. It is derived from how the
// runtime calls libraries, or measured (see docs/memory.md).
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_TARGET_CPU_FOOTPRINT_H
#define SHALE_TARGET_CPU_FOOTPRINT_H

#include <cstdint>

namespace shale::cpu {

/// Returns the bytes that oneDNN allocates per thread for c[m, n] = a[m, k]
/// b[k, n] as called by the runtime (runtime/device/host/Gemm.cpp).
int64_t matmulWorkspace(int64_t m, int64_t n, int64_t k);

/// Returns the bytes of scratch per thread in which the operands of a matmul
/// of 16-bit floats are widened to f32. `rounds` is whether its result has
/// 16-bit floats, too.
int64_t matmulPanels(int64_t m, int64_t n, int64_t k, bool rounds);

} // namespace shale::cpu

#endif // SHALE_TARGET_CPU_FOOTPRINT_H
