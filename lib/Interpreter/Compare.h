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
mlir::LogicalResult compareResults(llvm::StringRef what,
                                   const NamedTensors &before,
                                   const NamedTensors &after,
                                   const CompareOptions &options,
                                   llvm::raw_ostream &report, bool common);

/// Runs the functions that both modules have (if there is none, as before and
/// after autodiff, all of each) on the same logical values and compares the
/// results of one name. Writes one line per function and one per difference;
/// fails when something differs or nothing can be compared.
mlir::LogicalResult compareModules(mlir::ModuleOp before, mlir::ModuleOp after,
                                   const CompareOptions &options,
                                   llvm::raw_ostream &report);

} // namespace shale::interp

#endif // SHALE_INTERPRETER_COMPARE_H
