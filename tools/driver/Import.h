//===- Import.h - From the model's file to a module -----------------------===//
#ifndef SHALE_DRIVER_IMPORT_H
#define SHALE_DRIVER_IMPORT_H

#include "lib/Frontend/ONNX/Import.h"
#include "lib/Options/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace shale {

/// A model that was read.
struct Imported {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<std::string> assumed; ///< flags that --describe lacks: sizes were chosen for them
};

/// Checks what can be checked of the flags of the import before the model is read. Returns an exit
/// code.
int readImportOptions(const CompileOptions &options, onnx::ImportOptions &import);

/// Reads the model. Finds the size of a dimension that is "max" first. Takes what the file
/// determines of `options`. Returns an exit code.
int importModel(mlir::MLIRContext &context, CompileOptions &options, onnx::ImportOptions &import,
                Imported &result);

/// Prints the commands that compile and train the model, for copying.
void printCommands(mlir::ModuleOp module, const CompileOptions &options,
                   llvm::ArrayRef<std::string> assumed);

} // namespace shale

#endif // SHALE_DRIVER_IMPORT_H
