//===- Dumps.h - Modules between two stages, in files ---------------------===//
//
// --save-temps writes the module after each stage twice: as text to read, without
// locations and large constants, and as bytecode, with both. Each records its stage and
// the flags of the compilation. --compile-from continues from either.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_DRIVER_DUMPS_H
#define SHALE_DRIVER_DUMPS_H

#include "lib/Options/Options.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace shale {

/// Prints a module for people (lib/Support/PrintIR.h); constants of more than `maxElements` are
/// elided.
void printModule(mlir::ModuleOp module, int64_t maxElements, llvm::raw_ostream &os);

/// Returns the command that runs a pipeline on the module of a file.
std::string repeatCommand(llvm::StringRef before, llvm::StringRef pipeline,
                          const CompileOptions &options);

/// Writes a comment of one line; nothing if the text has more.
void writeComment(llvm::StringRef text, llvm::raw_ostream &os);

/// How a stage made a module: its passes, as text for --pass-pipeline, and the dump that they ran
/// on. Empty for the imported module.
struct DumpOrigin {
  std::string passes, before;
};

/// Writes PREFIX.mlir and PREFIX.mlirbc for the module after `stage`. The text begins with the
/// commands that continue from it and that repeat the stage. With `chosen` the recorded flags hold
/// the values that the planner chose. Returns an exit code.
int writeDump(mlir::ModuleOp module, llvm::StringRef prefix, llvm::StringRef stage,
              const DumpOrigin &origin, const CompileOptions &options, bool chosen);

/// Reads the dump that `options.model` names and adds the flags that it records to `options`; typed
/// flags come first. Returns an exit code after an error.
int readDump(mlir::MLIRContext &context, CompileOptions &options,
             mlir::OwningOpRef<mlir::ModuleOp> &module);

} // namespace shale

#endif // SHALE_DRIVER_DUMPS_H
