//===- Program.h - Host code and tables of a program ----------------------===//
//
// From rt to the LLVM dialect: functions become calls of the runtime
// (include/shale/Runtime.h), the module's declarations the tables of
// `shale_program`.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PASSES_PROGRAM_PROGRAM_H
#define SHALE_PASSES_PROGRAM_PROGRAM_H

#include "dialects/rt/RT.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace shale {

struct ProgramOptions {
  /// What --describe prints after the program's tables.
  std::string describe;
};

/// Lowers each rt.func @NAME to llvm.func @shale_NAME and rt.constants to
/// globals. Assumes that every rt.kernel has rows, grain and function. Fails after an error.
mlir::LogicalResult lowerStepFunctions(mlir::ModuleOp module);

/// Defines `shale_program`. Runs before the functions are lowered, which it reads.
mlir::LogicalResult defineProgramTables(mlir::ModuleOp module, const ProgramOptions &options);

/// The ShaleType of an element type; -1 if there is none.
int32_t runtimeType(mlir::Type element);

/// Position of an axis on the mesh; -1 if there is none.
int64_t axisIndex(mlir::ModuleOp module, llvm::StringRef axis);

} // namespace shale

#endif // SHALE_PASSES_PROGRAM_PROGRAM_H
