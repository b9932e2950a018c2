//===- Passes.td - What is kept and what is made again --------------------===//
#ifndef SHALE_MEMORY_PASSES_TD
#define SHALE_MEMORY_PASSES_TD

include "mlir/Pass/PassBase.td"

def AnnotateRecomputePass : Pass<"shale-annotate-recompute", "::mlir::ModuleOp"> {
  let summary = "Says which results of the forward pass are not kept";
  let description = [{
    Sets `mem.recompute` on forward ops of functions with a backward pass. With
    `block` on all of every block (the scopes that repeat with an index) whose
    results only their block reads: what remains are the blocks' inputs; with
    `block:0.5` in the first half of the blocks, rounded up. With
    `class:NAME` or `match:REGEX` the same of the modules of a class, or of the
    outermost scopes around parameters in whose names REGEX matches. With `selective` on
    ops, in blocks or not, that cost less than 2 operations a byte they move
    (interface `Cost`), unless their results are much smaller than what they
    read. Collectives are never done again, but for gathers of units.
  }];
  let options = [Option<"policy", "policy", "std::string", "\"none\"",
                        "none, block[:FRACTION], selective, class:NAME or match:REGEX">];
  let dependentDialects = ["::shale::mem::MemDialect"];
}

def MaterializeRecomputePass : Pass<"shale-materialize-recompute", "::mlir::ModuleOp"> {
  let summary = "Computes results and gathers units again";
  let description = [{
    Of every other op that carries `mem.recompute`, what the backward pass needs is
    cloned, block by block, each op in front of its first reader, behind one
    `mem.barrier` that also takes a gradient entering the block. The function's
    `mem.recompute_flops` says what that costs.

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

def AnnotateOffloadPass : Pass<"shale-annotate-offload", "::mlir::ModuleOp"> {
  let summary = "Says what goes to host memory";
  let description = [{
    `params` and `optimizer` set `mem.space = "host"` on flat states; `grads` sets
    it on those in which gradients of several micro-batches add up, and
    `mem.offload` on the ops that make the gradients that updates read;
    `activations` on forward ops whose results the backward pass reads after at
    least two ops of 2 operations a byte or more have run. With a fraction the
    largest go first, the states of one parameter's optimizer together. Runs when
    it is settled what is recomputed.
  }];
  let options = [Option<"policy", "policy", "std::string", "\"none\"",
                        "none, all, or a list of params, grads, optimizer, activations, each with :FRACTION or without">];
  let dependentDialects = ["::shale::mem::MemDialect"];
}

def MaterializeOffloadPass : Pass<"shale-materialize-offload", "::mlir::ModuleOp"> {
  let summary = "Copies to host memory and back";
  let description = [{
    Puts `mem.offload` behind ops that carry the attribute of that name and
    `mem.reload` in front of the first reader after the forward pass; reloads
    shards in front of gathers, and parameters that are read in place once per
    interval of use. An update whose state is on the host runs there, as does
    a sum of micro-batches; its other operands are copied there, and its results
    go home.

    Ensures: what `--shale-verify-memory` checks.
  }];
  let options = [Option<"maxGathersInFlight", "max-gathers-in-flight", "int64_t", "2",
                        "units whole, or on their way, at once">];
  let dependentDialects = ["::shale::mem::MemDialect"];
}

def VerifyMemoryPass : Pass<"shale-verify-memory", "::mlir::func::FuncOp"> {
  let summary = "Counts the gathers of each unit against what was asked for";
  let description = [{
    The exit contract of the memory stage: a group whose gathers carry
    `mem.recompute` is gathered exactly once per interval of use, any other once
    per function; nothing after the forward pass reads the result of another op that
    carries it; what computes again reads what was kept through a barrier; no two
    gathers read the same; each op reads what is in the memory where it runs.
  }];
  let options = [Option<"maxGathersInFlight", "max-gathers-in-flight", "int64_t", "2",
                        "units whole, or on their way, at once">];
}

#endif // SHALE_MEMORY_PASSES_TD
