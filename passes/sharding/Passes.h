//===- Passes.h - The sharding stage --------------------------------------===//
#ifndef SHALE_PASSES_SHARDING_PASSES_H
#define SHALE_PASSES_SHARDING_PASSES_H

#include "lib/Support/Policies.h"
#include "lib/Support/PolicyOption.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace mlir {
class DialectRegistry;
class ModuleOp;
} // namespace mlir

namespace shale {

struct CompileOptions;

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/sharding/Passes.h.inc"

/// Makes parameters that tensor axes can split, of the forward function, on a mesh with such an
/// axis. After all passes that match names of parameters, and after the ranges of inputs are known.
void buildDivisionPipeline(mlir::OpPassManager &manager);

/// Converts an annotated training step to the program of one rank.
void buildShardingPipeline(mlir::OpPassManager &manager, const CompileOptions &options);

/// Lets contexts keep what searches of tensor splits found. Without it each plan searches anew.
void registerSearchMemo(mlir::DialectRegistry &registry);

} // namespace shale

#endif // SHALE_PASSES_SHARDING_PASSES_H
