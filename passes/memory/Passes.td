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

    The next block reads the first block's `nn.tanh`, so its result is kept.

    Before (with `policy=block`):
    ```mlir
    nn.state @h.0.w role = param type = tensor<8xf32>
    nn.state @h.1.w role = param type = tensor<8xf32>
    func.func @step(%x: tensor<8xf32>, %w0: tensor<8xf32>, %w1: tensor<8xf32>) -> tensor<8xf32> {
      %a = nn.mul %x, %w0 {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<8xf32>
      %b = nn.tanh %a {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<8xf32>
      %c = nn.mul %b, %w1 {nn.phase = #nn.phase<forward>, nn.scope = "h.1"} : tensor<8xf32>
      %d = nn.tanh %c {nn.phase = #nn.phase<forward>, nn.scope = "h.1"} : tensor<8xf32>
      %dc = nn.mul %d, %c {nn.phase = #nn.phase<backward>, nn.scope = "h.1"} : tensor<8xf32>
      %da = nn.mul %dc, %a {nn.phase = #nn.phase<backward>, nn.scope = "h.0"} : tensor<8xf32>
      return %da : tensor<8xf32>
    }
    ```

    After:
    ```mlir
    nn.state @h.0.w role = param type = tensor<8xf32>
    nn.state @h.1.w role = param type = tensor<8xf32>
    func.func @step(%x: tensor<8xf32>, %w0: tensor<8xf32>, %w1: tensor<8xf32>) -> tensor<8xf32> {
      %a = nn.mul %x, %w0 {mem.recompute, nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<8xf32>
      %b = nn.tanh %a {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<8xf32>
      %c = nn.mul %b, %w1 {mem.recompute, nn.phase = #nn.phase<forward>, nn.scope = "h.1"} : tensor<8xf32>
      %d = nn.tanh %c {mem.recompute, nn.phase = #nn.phase<forward>, nn.scope = "h.1"} : tensor<8xf32>
      %dc = nn.mul %d, %c {nn.phase = #nn.phase<backward>, nn.scope = "h.1"} : tensor<8xf32>
      %da = nn.mul %dc, %a {nn.phase = #nn.phase<backward>, nn.scope = "h.0"} : tensor<8xf32>
      return %da : tensor<8xf32>
    }
    ```

    The product costs more than 2 operations a byte.

    Before (with `policy=selective`):
    ```mlir
    func.func @step(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>) -> tensor<16x16xf32> {
      %a = nn.matmul %x, %w {nn.phase = #nn.phase<forward>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %b = nn.tanh %a {nn.phase = #nn.phase<forward>} : tensor<16x16xf32>
      %da = nn.mul %a, %b {nn.phase = #nn.phase<backward>} : tensor<16x16xf32>
      return %da : tensor<16x16xf32>
    }
    ```

    After:
    ```mlir
    func.func @step(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>) -> tensor<16x16xf32> {
      %a = nn.matmul %x, %w {nn.phase = #nn.phase<forward>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %b = nn.tanh %a {mem.recompute, nn.phase = #nn.phase<forward>} : tensor<16x16xf32>
      %da = nn.mul %a, %b {nn.phase = #nn.phase<backward>} : tensor<16x16xf32>
      return %da : tensor<16x16xf32>
    }
    ```
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

    Only the block's input is kept. The backward pass reads the clones.

    Before:
    ```mlir
    func.func @step(%x: tensor<8xf32>, %dy: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
      %a = nn.exp %x {mem.recompute, nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<8xf32>
      %b = nn.tanh %a {mem.recompute, nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<8xf32>
      %y = nn.add %b, %x {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<8xf32>
      %dx = nn.mul %dy, %b {nn.phase = #nn.phase<backward>, nn.scope = "h.0"} : tensor<8xf32>
      return %y, %dx : tensor<8xf32>, tensor<8xf32>
    }
    ```

    After:
    ```mlir
    func.func @step(%x: tensor<8xf32>, %dy: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {mem.recompute_flops = 16 : i64} {
      %a = nn.exp %x {mem.recompute, nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<8xf32>
      %b = nn.tanh %a {mem.recompute, nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<8xf32>
      %y = nn.add %b, %x {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<8xf32>
      %kept = mem.barrier %x {nn.phase = #nn.phase<backward>} : tensor<8xf32>
      %a_again = nn.exp %kept {mem.recomputed, nn.phase = #nn.phase<backward>, nn.scope = "h.0"} : tensor<8xf32>
      %b_again = nn.tanh %a_again {mem.recomputed, nn.phase = #nn.phase<backward>, nn.scope = "h.0"} : tensor<8xf32>
      %dx = nn.mul %dy, %b_again {nn.phase = #nn.phase<backward>, nn.scope = "h.0"} : tensor<8xf32>
      return %y, %dx : tensor<8xf32>, tensor<8xf32>
    }
    ```

    Unit `@b` has one interval of use. Unit `@a` has one before it and one behind it;
    as only one unit may be whole here, `@a` is gathered again.

    Before (with `max-gathers-in-flight=1`):
    ```mlir
    #group = #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 8, segments = []>
    dist.mesh @mesh <[shard "fsdp"=2]>
    dist.unit @a on @mesh["fsdp"] groups = [#group]
    dist.unit @b on @mesh["fsdp"] groups = [#group]
    func.func @step(%x: tensor<8xf32>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<8xf32> {
      %whole_a = dist.unit_gather %a @a[0] over "fsdp" {mem.recompute} : tensor<4xf32> -> tensor<8xf32>
      %0 = nn.add %x, %whole_a : tensor<8xf32>
      %whole_b = dist.unit_gather %b @b[0] over "fsdp" {mem.recompute} : tensor<4xf32> -> tensor<8xf32>
      %1 = nn.add %0, %whole_b : tensor<8xf32>
      %2 = nn.mul %1, %whole_b : tensor<8xf32>
      %3 = nn.mul %2, %whole_a : tensor<8xf32>
      return %3 : tensor<8xf32>
    }
    ```

    After:
    ```mlir
    #group = #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 8, segments = []>
    dist.mesh @mesh <[shard "fsdp"=2]>
    dist.unit @a on @mesh["fsdp"] groups = [#group]
    dist.unit @b on @mesh["fsdp"] groups = [#group]
    func.func @step(%x: tensor<8xf32>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<8xf32> {
      %whole_a = dist.unit_gather %a @a[0] over "fsdp" {mem.recompute} : tensor<4xf32> -> tensor<8xf32>
      %0 = nn.add %x, %whole_a : tensor<8xf32>
      %whole_b = dist.unit_gather %b @b[0] over "fsdp" {mem.recompute} : tensor<4xf32> -> tensor<8xf32>
      %1 = nn.add %0, %whole_b : tensor<8xf32>
      %2 = nn.mul %1, %whole_b : tensor<8xf32>
      %later = mem.barrier %a : tensor<4xf32>
      %again_a = dist.unit_gather %later @a[0] over "fsdp" {mem.recompute} : tensor<4xf32> -> tensor<8xf32>
      %3 = nn.mul %2, %again_a : tensor<8xf32>
      return %3 : tensor<8xf32>
    }
    ```
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

    Two products run between the last use of `%a` in the forward pass and its use in
    the backward pass.

    Before (with `policy=activations`):
    ```mlir
    func.func @step(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>) -> tensor<16x16xf32> {
      %a = nn.exp %x {nn.phase = #nn.phase<forward>} : tensor<16x16xf32>
      %b = nn.matmul %a, %w {nn.phase = #nn.phase<forward>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %c = nn.matmul %b, %w {nn.phase = #nn.phase<forward>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %d = nn.matmul %c, %w {nn.phase = #nn.phase<backward>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %dx = nn.mul %d, %a {nn.phase = #nn.phase<backward>} : tensor<16x16xf32>
      return %dx : tensor<16x16xf32>
    }
    ```

    After:
    ```mlir
    func.func @step(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>) -> tensor<16x16xf32> {
      %a = nn.exp %x {mem.offload, nn.phase = #nn.phase<forward>} : tensor<16x16xf32>
      %b = nn.matmul %a, %w {nn.phase = #nn.phase<forward>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %c = nn.matmul %b, %w {nn.phase = #nn.phase<forward>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %d = nn.matmul %c, %w {nn.phase = #nn.phase<backward>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %dx = nn.mul %d, %a {nn.phase = #nn.phase<backward>} : tensor<16x16xf32>
      return %dx : tensor<16x16xf32>
    }
    ```

    Before (with `policy=optimizer`):
    ```mlir
    #group = #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 8, segments = []>
    dist.mesh @mesh <[shard "fsdp"=2]>
    dist.unit @u on @mesh["fsdp"] groups = [#group]
    nn.state @p role = param type = tensor<8xf32> {dist.axis = "fsdp", dist.group = 0 : i64, dist.unit = @u}
    nn.state @m role = momentum type = tensor<8xf32> {of = @p, dist.axis = "fsdp", dist.group = 0 : i64, dist.unit = @u}
    func.func @step(%p: tensor<4xf32> {nn.state = @p}, %m: tensor<4xf32> {nn.state = @m}) {
      return
    }
    ```

    After:
    ```mlir
    #group = #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 8, segments = []>
    dist.mesh @mesh <[shard "fsdp"=2]>
    dist.unit @u on @mesh["fsdp"] groups = [#group]
    nn.state @p role = param type = tensor<8xf32> {dist.axis = "fsdp", dist.group = 0 : i64, dist.unit = @u}
    nn.state @m role = momentum type = tensor<8xf32> {of = @p, dist.axis = "fsdp", dist.group = 0 : i64, dist.unit = @u, mem.space = "host"}
    func.func @step(%p: tensor<4xf32> {nn.state = @p}, %m: tensor<4xf32> {nn.state = @m}) {
      return
    }
    ```
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

    An activation is on the host until the backward pass reads it.

    Before:
    ```mlir
    func.func @step(%x: tensor<8xf32>, %w: tensor<8xf32>) -> tensor<8xf32> {
      %a = nn.exp %x {mem.offload, nn.phase = #nn.phase<forward>} : tensor<8xf32>
      %b = nn.mul %a, %w {nn.phase = #nn.phase<forward>} : tensor<8xf32>
      %dx = nn.mul %b, %a {nn.phase = #nn.phase<backward>} : tensor<8xf32>
      return %dx : tensor<8xf32>
    }
    ```

    After:
    ```mlir
    func.func @step(%x: tensor<8xf32>, %w: tensor<8xf32>) -> tensor<8xf32> {
      %a = nn.exp %x {mem.offload, nn.phase = #nn.phase<forward>} : tensor<8xf32>
      %on_host = mem.offload %a {nn.phase = #nn.phase<forward>} : tensor<8xf32>
      %b = nn.mul %a, %w {nn.phase = #nn.phase<forward>} : tensor<8xf32>
      %back = mem.reload %on_host {nn.phase = #nn.phase<backward>} : tensor<8xf32>
      %dx = nn.mul %b, %back {nn.phase = #nn.phase<backward>} : tensor<8xf32>
      return %dx : tensor<8xf32>
    }
    ```

    An update runs on the host, where its momentum is.

    Before:
    ```mlir
    nn.state @p role = param type = tensor<8xf32>
    nn.state @m role = momentum type = tensor<8xf32> {of = @p, mem.space = "host"}
    func.func @step(%p: tensor<8xf32> {nn.state = @p}, %m: tensor<8xf32> {nn.state = @m}, %g: tensor<8xf32>, %on: tensor<i1>, %lr: tensor<f32>)
        -> (tensor<8xf32> {nn.state = @p}, tensor<8xf32> {nn.state = @m}) {
      %new_p, %new_m = nn.sgd %p, %g, %m enable %on scale %lr lr %lr momentum %lr weight_decay %lr decay = 0.0
          {nn.phase = #nn.phase<update>} : tensor<8xf32>, tensor<f32>
      return %new_p, %new_m : tensor<8xf32>, tensor<8xf32>
    }
    ```

    After:
    ```mlir
    nn.state @p role = param type = tensor<8xf32>
    nn.state @m role = momentum type = tensor<8xf32> {of = @p, mem.space = "host"}
    func.func @step(%p: tensor<8xf32> {nn.state = @p}, %m: tensor<8xf32> {nn.state = @m}, %g: tensor<8xf32>, %on: tensor<i1>, %lr: tensor<f32>)
        -> (tensor<8xf32> {nn.state = @p}, tensor<8xf32> {nn.state = @m}) {
      %host_p = mem.offload %p {nn.phase = #nn.phase<update>} : tensor<8xf32>
      %host_g = mem.offload %g {nn.phase = #nn.phase<update>} : tensor<8xf32>
      %new_p, %new_m = nn.sgd %host_p, %host_g, %m enable %on scale %lr lr %lr momentum %lr weight_decay %lr decay = 0.0
          {nn.phase = #nn.phase<update>} : tensor<8xf32>, tensor<f32>
      %device_p = mem.reload %new_p {nn.phase = #nn.phase<update>} : tensor<8xf32>
      return %device_p, %new_m : tensor<8xf32>, tensor<8xf32>
    }
    ```
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

    Refused:
    ```mlir
    func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
      %a = nn.exp %x {mem.recompute, nn.phase = #nn.phase<forward>} : tensor<8xf32>
      %dx = nn.neg %a {nn.phase = #nn.phase<backward>} : tensor<8xf32>
      return %dx : tensor<8xf32>
    }
    ```
    with "reads after the forward pass what is to be computed again".

    Refused:
    ```mlir
    #group = #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 8, segments = []>
    dist.mesh @mesh <[shard "fsdp"=2]>
    dist.unit @u on @mesh["fsdp"] groups = [#group]
    func.func @step(%shard: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
      %once = dist.unit_gather %shard @u[0] over "fsdp" : tensor<4xf32> -> tensor<8xf32>
      %twice = dist.unit_gather %shard @u[0] over "fsdp" : tensor<4xf32> -> tensor<8xf32>
      return %once, %twice : tensor<8xf32>, tensor<8xf32>
    }
    ```
    with "group 0 of unit 'u' is gathered 2 times in @step, expected 1".
  }];
  let options = [Option<"maxGathersInFlight", "max-gathers-in-flight", "int64_t", "2",
                        "units whole, or on their way, at once">];
}

#endif // SHALE_MEMORY_PASSES_TD
