//===- Modules.h - The modules that parameters come from ------------------===//
//
// A parameter's name is a path of modules ("h.0.mlp.w" lies in the scopes "h",
// "h.0" and "h.0.mlp"); exporters also say the class of some.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_ANALYSIS_MODULES_H
#define SHALE_ANALYSIS_MODULES_H

#include "dialects/nn/NN.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallVector.h"
#include <string>
#include <vector>

namespace shale {

/// All names of a parameter, its own first.
llvm::SmallVector<llvm::StringRef> namesOf(nn::StateOp state);

/// The enclosing module scopes of a dotted path, outermost first: of "h.0.w"
/// these are "h" and "h.0"; with `whole` the path itself too.
llvm::SmallVector<llvm::StringRef> scopesOf(llvm::StringRef path, bool whole);

/// The blocks of a module: the outermost scopes that repeat with an index
/// ("transformer.h.0", "transformer.h.1"), in order of the parameters; empty if
/// none repeats. A family of such scopes (those that differ in the index) whose
/// parameters have less than a tenth of the elements of the largest family's
/// is none: the layers of a small head are no blocks.
std::vector<std::string> findBlocks(mlir::ModuleOp module);

/// Whether `name` is the class `full` ("gpt2.GPT2Block") or its last part.
bool isClass(llvm::StringRef full, llvm::StringRef name);

/// The scopes of class `name` that hold parameters or make ops, sorted. Fails
/// after an error that begins with `option` and lists the classes that there
/// are, when there is none.
mlir::FailureOr<std::vector<std::string>> scopesOfClass(mlir::ModuleOp module, llvm::StringRef name,
                                                        llvm::StringRef option);

} // namespace shale

#endif // SHALE_ANALYSIS_MODULES_H
