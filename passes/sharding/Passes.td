//===- Passes.td - From one program to one rank's program -----------------===//
#ifndef SHALE_SHARDING_PASSES_TD
#define SHALE_SHARDING_PASSES_TD

include "mlir/Pass/PassBase.td"

def PropagatePass : Pass<"shale-propagate", "::mlir::ModuleOp"> {
  let summary = "Gives every value a sharding";
  let description = [{
    Starts from inputs, whose batch dimension the data axes split, from
    `dist.sharding` on arguments and from `dist.constrain`; state is replicated
    where nothing else is said. Along the factors of each op's rule a split goes
    forward first, then backward to values that nothing has split (constants,
    positions), until nothing changes; data axes come first. A factor, once
    split, stays so: where operands disagree the partitioner reshards. Sums over
    a split factor are partial, and stay so through linear ops.

    Requires: a mesh. Ensures: `dist.sharding` on every argument of every
    function, `dist.shardings` on every op with results.

    A batch that does not divide is an error that says which sizes would do.
  }];
  let dependentDialects = ["::shale::dist::DistDialect"];
}

def VerifyShardedPass : Pass<"shale-verify-sharded", "::mlir::ModuleOp"> {
  let summary = "Checks that every value has a sharding";
  let description = [{
    The exit contract of propagation: every argument and every op of every
    function has a sharding of each value, and each op can make its results so.
  }];
}

def PartitionPass : Pass<"shale-partition", "::mlir::ModuleOp"> {
  let summary = "Turns the program into that of one rank";
  let description = [{
    Types become those of one rank; where a value is needed in another layout
    than it has, a collective is inserted: partial values are scattered or
    reduced, then splits are exchanged, gathered, sliced.

    Parameters move into `dist.unit`s: flat groups, split at rest as
    `dist.strategy` says. Their views replace the arguments; gradients are packed
    and reduced, updates run on the flat slice that the rank owns:

    | strategy | parameters at rest | gradients | optimizer state |
    |---|---|---|---|
    | none | whole | all-reduce, as soon as complete | whole |
    | optimizer | whole | reduce-scatter, at the end | slice |
    | grad | whole | reduce-scatter, as soon as complete | slice |
    | full | slice | reduce-scatter, as soon as complete | slice |

    A cast of a gradient in front of its update becomes one of what each rank packs.
    Micro-batches are added up in the accumulator's type: whole sums are cast to the
    reduce type when all are in them, a reduced slice is cast back and added.

    Requires: what `--shale-verify-sharded` checks. Ensures: no `dist.sharding`
    is left; the function's states are those with `dist.unit`.
  }];
  let dependentDialects = ["::shale::dist::DistDialect", "::shale::mem::MemDialect", "::shale::nn::NNDialect"];
}

def VerifyCollectivesPass : Pass<"shale-verify-collectives", "::mlir::ModuleOp"> {
  let summary = "Checks that the runtime has the collectives of a program";
  let description = [{
    The exit contract of the stage: sums, and pieces along the first dimension,
    are what ranks exchange. A batch that is split along a dimension which an op
    needs whole leads to others; the error is at that op.
  }];
}

#endif // SHALE_SHARDING_PASSES_TD
