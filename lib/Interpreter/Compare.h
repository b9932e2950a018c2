//===- Compare.h - Compares programs on the same values -------------------===//
#ifndef SHALE_INTERPRETER_COMPARE_H
#define SHALE_INTERPRETER_COMPARE_H

#include "lib/Interpreter/Program.h"
#include "llvm/Support/raw_ostream.h"

namespace shale::interp {

struct CompareOptions {
  Options interpreter;
  /// Number of ranks; 0: that of the module's mesh, or 1.
  int64_t ranks = 0;
  uint64_t seed = 0;
  /// Largest difference of an element, relative to the largest element of the
  /// tensor.
  double tolerance = 1e-12;
  /// Lower bound of the largest element in the relative difference, for tensors
  /// that are zero except for rounding errors.
  double floor = 0;
  /// Whether bits must be identical; the tolerance is ignored.
  bool exact = false;
  /// Values to use instead of random ones.
  NamedTensors inputs;
};

/// Runs a function. Missing inputs are generated at random and added to
/// `inputs`.
mlir::FailureOr<NamedTensors> runFunction(mlir::ModuleOp module, llvm::StringRef function,
                                          const CompareOptions &options, LogicalValues &inputs);

/// Compares results by name; with `common` only those that both have. Writes a
/// line for each difference and one with the counts. Fails if something
/// differs or nothing can be compared.
/// Raises `worst` to the largest relative difference if that is larger.
mlir::LogicalResult compareResults(llvm::StringRef what, const NamedTensors &before,
                                   const NamedTensors &after, const CompareOptions &options,
                                   llvm::raw_ostream &report, bool common, double *worst = nullptr);

/// Runs all functions of each module once, on the same logical values, and
/// compares every two modules by function and result name. Two modules without
/// a common function, as before and after autodiff, are compared by the results
/// that both have. For two modules, writes a line per function and per
/// difference. For more than two, named `names`, writes lines per pair that
/// differs, one per class of identical bits, and one with the counts. Fails if
/// something differs or two modules have nothing in common.
mlir::LogicalResult compareModules(llvm::ArrayRef<mlir::ModuleOp> modules,
                                   llvm::ArrayRef<std::string> names, const CompareOptions &options,
                                   llvm::raw_ostream &report);

} // namespace shale::interp

#endif // SHALE_INTERPRETER_COMPARE_H
