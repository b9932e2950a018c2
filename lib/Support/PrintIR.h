//===- PrintIR.h - IR as text for people ----------------------------------===//
#ifndef SHALE_SUPPORT_PRINTIR_H
#define SHALE_SUPPORT_PRINTIR_H

#include "mlir/IR/BuiltinOps.h"

namespace shale {

/// Returns `loc` with a name for the values of an op that no node of the model stands for. Only
/// printForPeople reads it: sourceNode() and reports do not.
mlir::Location withValueName(mlir::Location loc, llvm::StringRef name);

/// Prints a module with the names that its values have elsewhere: an argument is named after its
/// input, parameter or setting (`%lr`), a result after its node. Attributes of the module,
/// arguments and results of functions have a line each. Constants of more than `maxElements` are
/// elided. `nameOf` returns the name of a function's argument, or an empty string.
void printForPeople(mlir::ModuleOp module, int64_t maxElements,
                    llvm::function_ref<llvm::StringRef(mlir::BlockArgument)> nameOf,
                    llvm::raw_ostream &os);

} // namespace shale

#endif // SHALE_SUPPORT_PRINTIR_H
