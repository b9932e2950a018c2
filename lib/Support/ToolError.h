//===- ToolError.h - Failures of tools that the compiler runs -------------===//
#ifndef SHALE_SUPPORT_TOOLERROR_H
#define SHALE_SUPPORT_TOOLERROR_H

#include "mlir/IR/Diagnostics.h"
#include "shale/Runtime.h"
#include <optional>
#include <string>

namespace shale {

/// An error of a tool that the compiler runs, or of a file that the two exchange, and the exit code
/// of shalec for it: SHALE_EXIT_UNAVAILABLE if the tool is missing, does not start or is
/// too old, SHALE_EXIT_IO if a file cannot be written or read, SHALE_EXIT_INTERNAL if the tool
/// refuses what the compiler wrote.
struct ToolError {
  std::string message; ///< ends with the remedy, if there is one
  int exitCode = SHALE_EXIT_INTERNAL;
};

/// Emits "WHAT: MESSAGE" as an error that carries the exit code.
mlir::InFlightDiagnostic emitToolError(mlir::Location location, llvm::StringRef what,
                                       const ToolError &error);

/// Returns the exit code that an error carries. It replaces that of the stage that failed.
std::optional<int> exitCodeOf(mlir::Diagnostic &diagnostic);

} // namespace shale

#endif // SHALE_SUPPORT_TOOLERROR_H
