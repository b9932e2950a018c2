//===- Messages.h - Text of the compiler's diagnostics --------------------===//
#ifndef SHALE_DRIVER_MESSAGES_H
#define SHALE_DRIVER_MESSAGES_H

#include "mlir/IR/Diagnostics.h"

namespace shale {

/// Prints a diagnostic and its notes; a note names its node if that is a different one. `model` is
/// the path of the model, which messages name.
void printDiagnostic(mlir::Diagnostic &diagnostic, llvm::StringRef model, llvm::raw_ostream &os);

/// Prints an error about flags. Returns SHALE_EXIT_USAGE.
int usageError(const llvm::Twine &message);

} // namespace shale

#endif // SHALE_DRIVER_MESSAGES_H
