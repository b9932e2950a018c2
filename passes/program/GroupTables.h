//===- GroupTables.h - The tables of groups and states --------------------===//
#ifndef SHALE_PASSES_PROGRAM_GROUPTABLES_H
#define SHALE_PASSES_PROGRAM_GROUPTABLES_H

#include "lib/Codegen/ProgramData.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

namespace shale {

/// Places of parameters in the table of parameters.
using ParameterIndex = llvm::MapVector<mlir::StringAttr, int64_t>;
/// Places of groups in their table, by unit and group number, or by state and -1 if there is no
/// unit.
using GroupIndex = llvm::MapVector<std::pair<mlir::StringAttr, int64_t>, int64_t>;

/// Returns the table of groups (ShaleGroup): those of units, then one for each of the parameters
/// `alone`, which are in no unit. Sets `index`. Fails after an error if a segment's parameter is
/// not in the module.
mlir::FailureOr<abi::Rows<ShaleGroup>> groupTable(mlir::ModuleOp module, abi::ProgramData &data,
                                                  const ParameterIndex &parameters,
                                                  llvm::ArrayRef<mlir::Operation *> alone,
                                                  GroupIndex &index);

/// Returns the names of the optimizer's state, in the order in which they first occur.
mlir::ArrayAttr optimizerSlots(mlir::ModuleOp module);

/// Returns the table of states (ShaleState): the slice of each group that a rank holds. `slots` are
/// the names of the optimizer's state. Fails after an error if a slot has no state, group or axis.
mlir::FailureOr<abi::Rows<ShaleState>> stateTable(mlir::ModuleOp module, abi::ProgramData &data,
                                                  const GroupIndex &groups, mlir::ArrayAttr slots);

} // namespace shale

#endif // SHALE_PASSES_PROGRAM_GROUPTABLES_H
