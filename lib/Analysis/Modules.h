//===- Modules.h - The modules that parameters come from ------------------===//
//
// A parameter's name is a path of modules ("h.0.mlp.w" lies in the scopes "h",
// "h.0" and "h.0.mlp"). Exporters also record the classes of some modules.
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

/// Returns all names of a parameter, its symbol name first.
llvm::SmallVector<llvm::StringRef> namesOf(nn::StateOp state);

/// Returns the enclosing module scopes of a dotted path, outermost first: "h" and
/// "h.0" for "h.0.w". With `whole` the path itself is the last one.
llvm::SmallVector<llvm::StringRef> scopesOf(llvm::StringRef path, bool whole);

/// Returns what follows the last index of a scope: "mlp.c_fc" for "h.3.mlp.c_fc", the whole scope
/// if it has no index.
llvm::StringRef withinBlock(llvm::StringRef scope);

/// Returns the blocks of a module: the outermost scopes that repeat with an index
/// ("transformer.h.0", "transformer.h.1"), in order of the parameters; empty if
/// none repeats. A family is a set of such scopes that differ only in the index.
/// Families whose parameters have less than a tenth of the elements of the largest
/// family are left out: the layers of a small head are not blocks.
std::vector<std::string> findBlocks(mlir::ModuleOp module);

/// Whether `name` is the class `full` ("gpt2.GPT2Block") or its last part.
bool isClass(llvm::StringRef full, llvm::StringRef name);

/// Returns the scopes of class `name` that hold parameters or make ops, sorted. If
/// there is none, fails after an error that begins with `option` and lists the
/// existing classes.
mlir::FailureOr<std::vector<std::string>> scopesOfClass(mlir::ModuleOp module, llvm::StringRef name,
                                                        llvm::StringRef option);

} // namespace shale

#endif // SHALE_ANALYSIS_MODULES_H
