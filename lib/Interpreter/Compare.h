//===- Compare.h - Two programs on the same values ------------------------===//
#ifndef SHALE_INTERPRETER_COMPARE_H
#define SHALE_INTERPRETER_COMPARE_H

#include "lib/Interpreter/Program.h"
#include "llvm/Support/raw_ostream.h"

namespace shale::interp {

struct CompareOptions {
  Options interpreter;
  /// 0: as the modules ask for, or 1.
  int64_t ranks = 0;
  uint64_t seed = 0;
  /// Largest difference of an element, relative to the largest element of the
  /// tensor.
  double tolerance = 1e-12;
  /// A tensor of smaller elements is held as if its largest had this size:
  /// where what is zero but for rounding is compared.
  double floor = 0;
  /// Identical bits; the tolerance is ignored.
  bool exact = false;
  /// Values to use instead of random ones.
  NamedTensors inputs;
};

/// Runs a function; what is missing of its inputs is made at random, and kept.
mlir::FailureOr<NamedTensors> runFunction(mlir::ModuleOp module,
                                          llvm::StringRef function,
                                          const CompareOptions &options,
                                          LogicalValues &inputs);

/// Compares results by name; with `common` only those that both have. Writes a
/// line for each difference and one with the counts; fails when something
/// differs or nothing can be compared.
/// `worst` becomes the largest relative difference, if that is larger.
mlir::LogicalResult compareResults(llvm::StringRef what,
                                   const NamedTensors &before,
                                   const NamedTensors &after,
                                   const CompareOptions &options,
                                   llvm::raw_ostream &report, bool common,
                                   double *worst = nullptr);

/// Runs all functions of each module once, on the same logical values, and
/// compares every two modules by function and name of a result; two that have
/// no function in common, as before and after autodiff, by the results that
/// both have. Writes a line per function and per difference; of more than two
/// modules, called by `names`, lines per pair that differs, one per class of
/// identical bits, and one with the counts. Fails when something differs or two
/// have nothing in common.
mlir::LogicalResult compareModules(llvm::ArrayRef<mlir::ModuleOp> modules,
                                   llvm::ArrayRef<std::string> names,
                                   const CompareOptions &options,
                                   llvm::raw_ostream &report);

} // namespace shale::interp

#endif // SHALE_INTERPRETER_COMPARE_H
