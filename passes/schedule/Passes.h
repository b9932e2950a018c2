//===- Passes.h - The schedule stage --------------------------------------===//
#ifndef SHALE_PASSES_SCHEDULE_PASSES_H
#define SHALE_PASSES_SCHEDULE_PASSES_H

#include "dialects/dist/Dist.h"
#include "dialects/mem/Mem.h"
#include "lib/Support/PolicyOption.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir {
class OpPassManager;
}

namespace shale {

struct CompileOptions;

#define GEN_PASS_DECL
#include "passes/schedule/Passes.h.inc"

/// Appends schedule: puts ops of nn (with clusters), dist and mem into the order in which each rank
/// runs them.
void buildSchedulePipeline(mlir::OpPassManager &pm, const CompileOptions &options);

void registerSchedulePasses();

} // namespace shale

#endif // SHALE_PASSES_SCHEDULE_PASSES_H
