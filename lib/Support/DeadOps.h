//===- DeadOps.h - Removal of ops that have no effect ---------------------===//
#ifndef SHALE_SUPPORT_DEADOPS_H
#define SHALE_SUPPORT_DEADOPS_H

#include "mlir/IR/Block.h"

namespace shale {

/// Erases the ops of a block that have no side effects and whose results are unused, from last to
/// first. Does not enter regions.
void eraseDeadOps(mlir::Block &block);

} // namespace shale

#endif // SHALE_SUPPORT_DEADOPS_H
