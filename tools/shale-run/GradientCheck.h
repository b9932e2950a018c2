//===- GradientCheck.h - Gradients against central differences ------------===//
#ifndef SHALE_TOOLS_SHALE_RUN_GRADIENTCHECK_H
#define SHALE_TOOLS_SHALE_RUN_GRADIENTCHECK_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::func {
class FuncOp;
} // namespace mlir::func

namespace shale {

struct GradientCheckOptions {
  uint64_t seed = 0;
  /// Largest allowed |difference| / max(1, |gradient|).
  double tolerance = 1e-6;
  /// Seconds between lines of progress on standard error.
  double progress = 10;
};

/// Differentiates sum_i <r_i, result_i> of the function, with random r_i, in f64
/// with respect to every float argument that has no `nn.role`, and compares each
/// element with a central difference. Writes one line per argument.
mlir::LogicalResult checkGradients(mlir::func::FuncOp function, const GradientCheckOptions &options,
                                   llvm::raw_ostream &report);

} // namespace shale

#endif // SHALE_TOOLS_SHALE_RUN_GRADIENTCHECK_H
