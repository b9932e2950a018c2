//===- PrintIR.h - IR as text for people ----------------------------------===//
#ifndef SHALE_SUPPORT_PRINTIR_H
#define SHALE_SUPPORT_PRINTIR_H

#include "mlir/IR/BuiltinOps.h"

namespace shale {

/// Returns `loc` with a value name, for an op that does not come from a node of the model. Only
/// printForPeople uses the name; sourceNode() and reports ignore it.
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
