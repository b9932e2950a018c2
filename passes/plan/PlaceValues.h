//===- PlaceValues.h - Which values share bytes ---------------------------===//
#ifndef SHALE_PASSES_PLAN_PLACEVALUES_H
#define SHALE_PASSES_PLAN_PLACEVALUES_H

#include "lib/Target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/plan/Placement.h"

namespace shale {

/// Finds a place for every value of a scheduled function with one block. A value may overwrite
/// another one only if the old value has no more readers. Emits an error on failure.
mlir::FailureOr<Placement> placeValues(mlir::func::FuncOp function, const Target &target);

} // namespace shale

#endif // SHALE_PASSES_PLAN_PLACEVALUES_H
