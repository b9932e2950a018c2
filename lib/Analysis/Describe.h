//===- Describe.h - Human-readable description of a model -----------------===//
#ifndef SHALE_ANALYSIS_DESCRIBE_H
#define SHALE_ANALYSIS_DESCRIBE_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace shale {

/// Prints the inputs, dimensions, parameters, blocks, loss and label bindings of
/// an imported module, for `shalec MODEL --describe`.
void describeModel(mlir::ModuleOp module, llvm::raw_ostream &os);

/// Prints the command that trains the model, and the tensors that its data file must hold.
void describeTraining(mlir::ModuleOp module, llvm::StringRef program, llvm::raw_ostream &os);

} // namespace shale

#endif // SHALE_ANALYSIS_DESCRIBE_H
