//===- Passes.td - What is kept and what is made again --------------------===//
#ifndef SHALE_MEMORY_PASSES_TD
#define SHALE_MEMORY_PASSES_TD

include "mlir/Pass/PassBase.td"

def MaterializeRecomputePass : Pass<"shale-materialize-recompute", "::mlir::func::FuncOp"> {
  let summary = "Gathers units again for each interval of use";
  let description = [{
    A `dist.unit_gather` that carries `mem.recompute` is not kept: for each later
    interval in which the unit is used its views are made again from a clone,
    which takes the shard through a `mem.barrier`. An interval of use ends where
    an op reads another unit; two intervals of a unit that only one interval of
    another unit parts become one (the last block is gathered once for forward
    and backward) unless more than `max-gathers-in-flight` units were whole.

    Ensures: what `--shale-verify-memory` checks. No CSE may run after it.
  }];
  let options = [Option<"maxGathersInFlight", "max-gathers-in-flight", "int64_t", "2",
                        "units whole, or on their way, at once">];
  let dependentDialects = ["::shale::mem::MemDialect", "::shale::dist::DistDialect"];
}

def VerifyMemoryPass : Pass<"shale-verify-memory", "::mlir::func::FuncOp"> {
  let summary = "Counts the gathers of each unit against what was asked for";
  let description = [{
    The exit contract of the memory stage: a group whose gathers carry
    `mem.recompute` is gathered exactly once per interval of use, any other once
    per function.
  }];
  let options = [Option<"maxGathersInFlight", "max-gathers-in-flight", "int64_t", "2",
                        "units whole, or on their way, at once">];
}

#endif // SHALE_MEMORY_PASSES_TD
