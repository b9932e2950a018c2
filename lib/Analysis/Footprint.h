//===- Footprint.h - What libraries and the process take of a rank --------===//
//
// Everything beside the state block and the arena: known from how the runtime
// calls libraries, or measured (docs/memory.md says how).
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_ANALYSIS_FOOTPRINT_H
#define SHALE_ANALYSIS_FOOTPRINT_H

#include "dialects/rt/RT.h"
#include "mlir/IR/BuiltinOps.h"

namespace shale {

/// Bytes, of one rank.
struct Footprint {
  /// Buffers of the library's product, all threads.
  int64_t products = 0;
  /// Scratch of kernels (`OwnKernel`), all threads.
  int64_t scratch = 0;
  /// Gloo's contexts, pairs and requests.
  int64_t communicator = 0;
  /// Pieces in which state goes to disk.
  int64_t saving = 0;
  /// Small blocks of heaps, and stacks, all threads.
  int64_t heap = 0;
  /// Code, libraries, what oneDNN compiles at run time, the heap's rest.
  int64_t process = 0;
};

/// Of a planned module, run by `threads` threads a rank.
Footprint footprintOf(mlir::ModuleOp module, int64_t ranks, int64_t threads);

/// Bytes that oneDNN allocates on a thread for c[m, n] = a[m, k] b[k, n] as the
/// runtime calls it (runtime/device/host/Gemm.cpp).
int64_t productWorkspace(int64_t m, int64_t n, int64_t k);

/// Bytes of a thread's scratch in which a product of half types is widened;
/// `rounds` where its result is a half type, too.
int64_t productPanels(int64_t m, int64_t n, int64_t k, bool rounds);

} // namespace shale

#endif // SHALE_ANALYSIS_FOOTPRINT_H
