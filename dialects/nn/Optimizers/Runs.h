//===- Runs.h - Elements of a group that are updated alike ----------------===//
//
// The parts of update kernels that every target emits.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_NN_OPTIMIZERS_RUNS_H
#define SHALE_NN_OPTIMIZERS_RUNS_H

#include "dialects/nn/UpdateFactors.h"

namespace shale::nn {

/// Elements [begin, end) of a flat group, with the same factors. In stochastic rounding, the number
/// of an element is its place in the group plus `shift`.
struct UpdateRun {
  int64_t begin, end;
  UpdateFactors factors;
  int64_t shift;
};

/// Returns the segments of an update of a flat group. Adjacent ones with the same factors and
/// consecutive numbers are one run.
llvm::SmallVector<UpdateRun> runsOf(OptimizerUpdateOpInterface update);

/// Returns a factor of each run as tensor<runs x f32>, or null if all are 1.
mlir::DenseElementsAttr factorTable(mlir::Builder &b, llvm::ArrayRef<UpdateRun> runs,
                                    UpdateFactor factor);

/// A value of each UpdateFactor; null: 1.
using FactorValues = std::array<mlir::Value, kUpdateFactors>;

/// Returns the scalars of the formula, by operand, multiplied by their factors. Scalars and factors
/// have one type.
llvm::SmallVector<mlir::Value> emitScaled(mlir::OpBuilder &b, mlir::Location loc,
                                          OptimizerUpdateOpInterface update,
                                          llvm::ArrayRef<mlir::Value> scalars,
                                          const FactorValues &factors);

} // namespace shale::nn

#endif // SHALE_NN_OPTIMIZERS_RUNS_H
