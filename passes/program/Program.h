//===- Program.h - Host code and tables of a program ----------------------===//
//
// Lowers rt to the LLVM dialect: the ops of functions become calls of the runtime
// (include/shale/Runtime.h), and the module's declarations become the tables of
// `shale_program`.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PASSES_PROGRAM_PROGRAM_H
#define SHALE_PASSES_PROGRAM_PROGRAM_H

#include "dialects/rt/RT.h"
#include "mlir/IR/BuiltinOps.h"
#include "shale/Runtime.h"
#include "llvm/ADT/StringMap.h"
#include <string>

namespace shale {

struct ProgramOptions {
  /// The text that --describe prints after the program's tables.
  std::string describe;
  /// The real path of the program's folder, which the paths of files with initial values are
  /// relative to. Empty: they are absolute.
  std::string folder;
  /// The limits of memory of a rank that the plan was made for; 0: none.
  int64_t hostLimit = 0, totalLimit = 0;
};

/// Lowers each rt.func @NAME to llvm.func @shale_NAME, and each rt.constant to a
/// global. Every rt.kernel must have rows, grain and function. Emits an error on failure.
mlir::LogicalResult lowerStepFunctions(mlir::ModuleOp module);

/// Defines `shale_program`. Reads the rt functions, so it runs before they are lowered.
mlir::LogicalResult defineProgramTables(mlir::ModuleOp module, const ProgramOptions &options);

/// The global that holds the constants of all functions.
inline constexpr llvm::StringLiteral kConstants = "shale_constants_of_functions";

/// The places of the module's rt.constants in one block of read-only data.
struct ConstantLayout {
  llvm::StringMap<int64_t> offsets; ///< bytes into the block, by symbol
  int64_t bytes = 0;
};
ConstantLayout layOutConstants(mlir::ModuleOp module);

/// Returns the ShaleType of an element type; SHALE_NO_TYPE if there is none.
ShaleType runtimeType(mlir::Type element);
/// Returns the ShaleType of what a collective sends: elements, or the words of an encoding.
ShaleType sentType(mlir::Type element, mlir::Attribute encoding);

/// Returns the position of an axis on the mesh; -1 if there is none.
int64_t axisIndex(mlir::ModuleOp module, llvm::StringRef axis);

} // namespace shale

#endif // SHALE_PASSES_PROGRAM_PROGRAM_H
