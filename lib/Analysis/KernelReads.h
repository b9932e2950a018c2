//===- KernelReads.h - Which elements a kernel reads for one it writes ----===//
//
// Asked of the ops' own element maps (`Indexed::emitAt`) with constant indices,
// so the answer depends neither on how fusion classifies accesses nor on the
// schedule that codegen chooses.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_ANALYSIS_KERNELREADS_H
#define SHALE_ANALYSIS_KERNELREADS_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>
#include <string>

namespace shale {

/// Outer rows of a kernel that reduces over trailing dimensions: a row's
/// reductions are complete before any element of the row is written.
struct KernelRows {
  int64_t rows = 0, columns = 0;
  /// The reductions, in order.
  llvm::SmallVector<mlir::Operation *> reductions;
};

/// The rows of a kernel's body, where all results have R or R * C elements; the
/// largest reduction counts. Nothing for a kernel without such a reduction.
std::optional<KernelRows> findKernelRows(mlir::Block &body);

/// Checks that a kernel may write result `result` over argument `argument`: each
/// element of the argument is read for the element at its own index, or by a row
/// reduction of its own row. Looks at a sample of elements (all of small results).
/// Returns what is wrong, or an empty text.
std::string findHazard(mlir::Block &body, unsigned result, unsigned argument);

} // namespace shale

#endif // SHALE_ANALYSIS_KERNELREADS_H
