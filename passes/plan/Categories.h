//===- Categories.h - What allocations are for ----------------------------===//
#ifndef SHALE_PASSES_PLAN_CATEGORIES_H
#define SHALE_PASSES_PLAN_CATEGORIES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/plan/Placement.h"

namespace shale {

/// Returns the category of states with a role.
rt::Category categoryOf(nn::Role role);

/// Sets category, name and padding of the allocations of what collectives and copies between
/// memories read and write. Assumes that all values of the function have a place.
void nameCategories(mlir::func::FuncOp function, Placement &placement);

} // namespace shale

#endif // SHALE_PASSES_PLAN_CATEGORIES_H
