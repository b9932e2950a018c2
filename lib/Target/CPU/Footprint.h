//===- Footprint.h - What libraries and the process take of a rank --------===//
//
// Everything beside the state block and the arena: known from how the runtime
// calls libraries, or measured (docs/memory.md says how).
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_TARGET_CPU_FOOTPRINT_H
#define SHALE_TARGET_CPU_FOOTPRINT_H

#include <cstdint>

namespace shale::cpu {

/// Bytes that oneDNN allocates on a thread for c[m, n] = a[m, k] b[k, n] as the
/// runtime calls it (runtime/device/host/Gemm.cpp).
int64_t productWorkspace(int64_t m, int64_t n, int64_t k);

/// Bytes of a thread's scratch in which a product of half types is widened;
/// `rounds` where its result is a half type, too.
int64_t productPanels(int64_t m, int64_t n, int64_t k, bool rounds);

} // namespace shale::cpu

#endif // SHALE_TARGET_CPU_FOOTPRINT_H
