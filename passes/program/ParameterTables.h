//===- ParameterTables.h - Tables of the state_dict -----------------------===//
#ifndef SHALE_PASSES_PROGRAM_PARAMETERTABLES_H
#define SHALE_PASSES_PROGRAM_PARAMETERTABLES_H

#include "passes/program/GroupTables.h"

namespace shale {

/// Returns the table of parameters: state that is saved by name, with its initial values. Files in
/// it are relative to `folder` (embeddedPath). Sets `index`. Fails after an error if initial values
/// cannot be read.
mlir::FailureOr<abi::Rows<ShaleParameter>> parameterTable(mlir::ModuleOp module,
                                                          abi::ProgramData &data,
                                                          llvm::StringRef folder,
                                                          ParameterIndex &index);

/// Returns the table of buffers and parameters of the state_dict that are not state of the program.
abi::Rows<ShaleParameter> keptTable(mlir::ModuleOp module, abi::ProgramData &data,
                                    llvm::StringRef folder);

} // namespace shale

#endif // SHALE_PASSES_PROGRAM_PARAMETERTABLES_H
