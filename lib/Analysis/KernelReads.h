//===- KernelReads.h - Elements that a kernel reads per written element ---===//
//
// Computed from the ops' own element maps (`IndexedOpInterface::emitAt`) with constant
// indices, so the result depends neither on how fusion classifies accesses nor
// on the schedule that codegen chooses.
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
  /// The reductions over a row, in order.
  llvm::SmallVector<mlir::Operation *> reductions;
  /// Results that are reductions of columns over rows. An element is added before the element at
  /// its place is written.
  llvm::SmallVector<mlir::Operation *> sums;
};

/// Returns the rows R and columns C of a kernel's body, given by its largest
/// reduction such that each result has R or R * C elements or reduces columns over rows; or by the
/// reductions of columns, if there are other results. Nothing if there is no such reduction.
std::optional<KernelRows> findKernelRows(mlir::Block &body);

/// Checks that a kernel may write result `result` over argument `argument`: each
/// element of the argument is read for the element at its own index, or by a row
/// reduction of its own row. Looks at a sample of elements (all of small results).
/// Returns an error message, or an empty string.
std::string findHazard(mlir::Block &body, unsigned result, unsigned argument);

} // namespace shale

#endif // SHALE_ANALYSIS_KERNELREADS_H
