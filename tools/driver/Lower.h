//===- Lower.h - From one rank's program to a plan, as a function ---------===//
//
// memory -> fusion -> schedule -> plan on a clone: the same module and the same
// flags give the same plan, and nothing else changes. The search over flags,
// advice and tables of plans are made of this.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_DRIVER_LOWER_H
#define SHALE_DRIVER_LOWER_H

#include "lib/Analysis/ProgramSummary.h"
#include "lib/Analysis/TimeModel.h"
#include "tools/driver/Options.h"
#include "lib/Support/ByteSize.h"
#include "mlir/IR/OwningOpRef.h"

namespace shale {

struct Plan {
  CompileOptions options;
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< of rt; null once it is not needed
  ProgramSummary summary;
  double seconds = 0; ///< predicted, for ordering

  /// Planned bytes of a rank, fixed costs included, by memory space.
  int64_t device() const;
  int64_t host() const;
  /// What a limit of both together bounds, else the device's.
  int64_t size(const MemoryLimit &limit) const { return limit.sum ? device() + host() : device(); }
  bool fits(const MemoryLimit &limit) const;
};

/// Runs the stages after the one named `from`, up to and including the one named `to`. Returns the exit code of the stage that
/// fails, or 0.
int runStages(mlir::ModuleOp module, const CompileOptions &options, llvm::StringRef from, llvm::StringRef to,
              bool verify = true);

/// The first half: a clone of `partitioned`, memory policies materialized, fused; null after
/// an error, with what it means for the program's end in `exitCode`. The same for options of
/// equal `fusedKey`. Both halves may run on several threads at once.
/// Without `verify` IR is not verified after each pass, which takes a fifth of the time: for
/// plans of many, of which the one that is taken is made again.
mlir::OwningOpRef<mlir::ModuleOp> lowerToFused(mlir::ModuleOp partitioned, const CompileOptions &options,
                                               bool verify = true, int *exitCode = nullptr);
std::string fusedKey(const CompileOptions &options);

/// The second half: order and places. Takes the module.
mlir::FailureOr<Plan> planFused(mlir::OwningOpRef<mlir::ModuleOp> fused, const CompileOptions &options,
                                bool verify = true);

/// What --memory-limit says; nothing without one, or where it says what it cannot. A program
/// that is made runs on this target, whose memories are one RAM; a plan is of the machine that
/// was named.
MemoryLimit limitOf(const CompileOptions &options);

/// The machine whose rates order plans for these options.
const Rates &ratesFor(const CompileOptions &options);

} // namespace shale

#endif // SHALE_DRIVER_LOWER_H
