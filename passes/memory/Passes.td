//===- Passes.td - Passes of the memory stage -----------------------------===//
#ifndef SHALE_MEMORY_PASSES_TD
#define SHALE_MEMORY_PASSES_TD

include "lib/Options/Options.td"
include "mlir/Pass/PassBase.td"

def ChunkLossesPass : Pass<"shale-chunk-losses", "::mlir::ModuleOp"> {
  let summary = "Computes losses in chunks of rows";
  let description = [{
    A loss reads logits: a matrix with a row per token and a column per class. With
    many classes the logits and their gradient are the largest tensors of the step.
    This pass computes the ops on such matrices once per chunk of rows: the matmul
    that makes the logits, the loss (interface `RowLossOpInterface`), the gradient,
    and the matmuls that read it. Sums over rows are added chunk by chunk, a
    matmul with a weight by `nn.matmul_add`; other results are concatenated. Results
    that do not depend on the logits, such as the number of labels, are computed
    before the first chunk.

    `rows` is the number of rows of a chunk. Chunks are equal, so their number is the
    next larger divisor of all rows, up to four times as many, or else the next smaller
    one; it is at most 256. `auto` is the target's number of rows, and leaves logits below
    64 MiB as they are.

    Ops are split by their sharding rules, as if the chunks were ranks; so are collectives
    between the loss and its gradient, where ranks share the classes: they exchange a number
    per row. Constants of a chunk are small ones. Nothing is
    changed, and a remark gives the reason, if the logits are a result of the function or
    have two losses, or if an op on them has no rule, mixes rows, draws random numbers or
    depends on the loss.

    Before (with `loss-chunk=2`):
    ```mlir
    func.func @loss(%x: tensor<4x3xf32>, %w: tensor<9x3xf32>, %labels: tensor<4xi64>) -> tensor<f32> {
      %logits = nn.matmul %x, %w transpose_rhs : (tensor<4x3xf32>, tensor<9x3xf32>) -> tensor<4x9xf32>
      %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<4x9xf32>, tensor<4xi64>
      return %sum : tensor<f32>
    }
    ```

    After:
    ```mlir
    func.func @loss(%x: tensor<4x3xf32>, %w: tensor<9x3xf32>, %labels: tensor<4xi64>) -> tensor<f32> {
      %0 = nn.slice %x starts = [0, 0] limits = [2, 3] strides = [1, 1] : tensor<4x3xf32> -> tensor<2x3xf32>
      %1 = nn.matmul %0, %w transpose_rhs : (tensor<2x3xf32>, tensor<9x3xf32>) -> tensor<2x9xf32>
      %2 = nn.slice %labels starts = [0] limits = [2] strides = [1] : tensor<4xi64> -> tensor<2xi64>
      %sum, %count, %lse = nn.cross_entropy %1, %2 ignore_index = -100 : tensor<2x9xf32>, tensor<2xi64>
      %3 = nn.slice %x starts = [2, 0] limits = [4, 3] strides = [1, 1] : tensor<4x3xf32> -> tensor<2x3xf32>
      %4 = nn.matmul %3, %w transpose_rhs : (tensor<2x3xf32>, tensor<9x3xf32>) -> tensor<2x9xf32>
      %5 = nn.slice %labels starts = [2] limits = [4] strides = [1] : tensor<4xi64> -> tensor<2xi64>
      %sum_0, %count_1, %lse_2 = nn.cross_entropy %4, %5 ignore_index = -100 : tensor<2x9xf32>, tensor<2xi64>
      %6 = nn.add %sum, %sum_0 : tensor<f32>
      return %6 : tensor<f32>
    }
    ```
  }];
  let options = FlagsOf<"shale-chunk-losses">.options;
  let dependentDialects = ["::shale::dist::DistDialect", "::shale::nn::NNDialect"];
}

def AnnotateRecomputePass : Pass<"shale-annotate-recompute", "::mlir::ModuleOp"> {
  let summary = "Marks the forward ops that the backward pass recomputes";
  let description = [{
    Sets `mem.recompute` on forward ops of functions with a backward pass. The
    policy selects the ops:

    - `block`: the ops of every block (the scopes that repeat with an index) whose
      results only their block reads, so that only the inputs of blocks are kept.
      `block:0.5` selects the first half of the blocks, rounded up.
    - `class:NAME`: the same for the modules of a class.
    - `match:REGEX`: the same for scopes whose name REGEX matches; around each
      parameter only the outermost one.
    - `selective`: ops, inside or outside of blocks, that need fewer than 2
      operations per byte moved (interface `CostOpInterface`), unless their results are much
      smaller than their operands.

    Sums over ranks and all-to-alls are never recomputed: their results are no larger than their operands. If a
    smaller value stands for such a result in all its uses, as the residual stream in bf16 for a sum in f32, it is kept
    instead.
    `block`, `class` and `match` repeat all-gathers of activations, which tensor axes with sequence
    parallelism have: what is kept is the rank's slice. `selective` keeps what they gather. Units are gathered
    again as the strategy says.

    The second block reads the result of the first block's `nn.tanh`, so it is kept.

    Before (with `recompute=block`):
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

    The matmul needs more than 2 operations per byte.

    Before (with `recompute=selective`):
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
  let options = FlagsOf<"shale-annotate-recompute">.options;
  let dependentDialects = ["::shale::mem::MemDialect"];
}

def MaterializeRecomputePass : Pass<"shale-materialize-recompute", "::mlir::ModuleOp"> {
  let summary = "Recomputes results and gathers units again instead of keeping them";
  let description = [{
    Clones the ops with `mem.recompute`, except gathers, that the backward pass
    needs. This is done block by block. Each clone is placed in front of its first
    reader. The inputs of a block's clones pass through one `mem.barrier`, which
    also takes a gradient that enters the block. The function's attribute
    `mem.recompute_flops` is the number of floating-point operations of the clones.

    The result of a `dist.unit_gather` with `mem.recompute` is not kept. For each
    later interval in which the unit is used, the gather and its views are cloned;
    the clone of the gather reads the shard through a `mem.barrier`. An interval of
    use ends where an op reads another unit. Two intervals of a unit that are
    separated by only one interval of another unit are merged (the last block is
    gathered once for forward and backward), unless more than
    `max-gathers-in-flight` units would then be gathered at once.

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

    Unit `@b` has one interval of use. Unit `@a` has one before it and one after it.
    Only one unit may be gathered at once here, so `@a` is gathered again.

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
  let options = FlagsOf<"shale-materialize-recompute">.options;
  let dependentDialects = ["::shale::mem::MemDialect", "::shale::dist::DistDialect"];
}

def AnnotateOffloadPass : Pass<"shale-annotate-offload", "::mlir::ModuleOp"> {
  let summary = "Marks the states and results that are kept in host memory";
  let description = [{
    The policy selects what is kept in host memory:

    - `params` and `optimizer` set `mem.space = "host"` on flat states.
    - `grads` sets it on the states that accumulate gradients of several
      micro-batches, and sets `mem.offload` on the ops that compute the gradients
      that updates read.
    - `activations` sets `mem.offload` on forward ops whose results the backward
      pass reads after at least two ops of 2 or more operations per byte have run.

    With a fraction, the largest tensors are selected first; the states of one
    parameter's optimizer are selected together. Runs after it is decided what is
    recomputed.

    Two matmuls run between the last use of `%a` in the forward pass and its use in
    the backward pass.

    Before (with `offload=activations`):
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

    Before (with `offload=optimizer`):
    ```mlir
    #group = #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 8, segments = []>
    dist.mesh @mesh <[shard "fsdp"=2]>
    dist.unit @u on @mesh["fsdp"] groups = [#group]
    nn.state @p role = param type = tensor<8xf32> {dist.axis = "fsdp", dist.group = 0 : i64, dist.unit = @u}
    nn.state @m role = moment("momentum") type = tensor<8xf32> {of = @p, dist.axis = "fsdp", dist.group = 0 : i64, dist.unit = @u}
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
    nn.state @m role = moment("momentum") type = tensor<8xf32> {of = @p, dist.axis = "fsdp", dist.group = 0 : i64, dist.unit = @u, mem.space = "host"}
    func.func @step(%p: tensor<4xf32> {nn.state = @p}, %m: tensor<4xf32> {nn.state = @m}) {
      return
    }
    ```
  }];
  let options = FlagsOf<"shale-annotate-offload">.options;
  let dependentDialects = ["::shale::mem::MemDialect"];
}

def MaterializeOffloadPass : Pass<"shale-materialize-offload", "::mlir::ModuleOp"> {
  let summary = "Inserts copies to host memory and back";
  let description = [{
    Inserts `mem.offload` after ops with the attribute `mem.offload`, and
    `mem.reload` in front of the first reader after the forward pass. Reloads
    shards in front of gathers, and parameters that are read in place once per
    interval of use. An update whose state is on the host runs on the host, as does
    a sum of micro-batches. Its other operands are copied to the host, and its
    results are copied to the memory of their state.

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

    The momentum is on the host, so the update runs there.

    Before:
    ```mlir
    nn.state @p role = param type = tensor<8xf32>
    nn.state @m role = moment("momentum") type = tensor<8xf32> {of = @p, mem.space = "host"}
    func.func @step(%p: tensor<8xf32> {nn.state = @p}, %m: tensor<8xf32> {nn.state = @m}, %g: tensor<8xf32>, %on: tensor<i1>, %lr: tensor<f32>)
        -> (tensor<8xf32> {nn.state = @p}, tensor<8xf32> {nn.state = @m}) {
      %new_p, %new_m = nn.sgd %p, %g, %m enable %on scale %lr lr %lr momentum %lr weight_decay %lr factors <decay = 0.0>
          {nn.phase = #nn.phase<update>} : tensor<8xf32>, tensor<f32>
      return %new_p, %new_m : tensor<8xf32>, tensor<8xf32>
    }
    ```

    After:
    ```mlir
    nn.state @p role = param type = tensor<8xf32>
    nn.state @m role = moment("momentum") type = tensor<8xf32> {of = @p, mem.space = "host"}
    func.func @step(%p: tensor<8xf32> {nn.state = @p}, %m: tensor<8xf32> {nn.state = @m}, %g: tensor<8xf32>, %on: tensor<i1>, %lr: tensor<f32>)
        -> (tensor<8xf32> {nn.state = @p}, tensor<8xf32> {nn.state = @m}) {
      %host_p = mem.offload %p {nn.phase = #nn.phase<update>} : tensor<8xf32>
      %host_g = mem.offload %g {nn.phase = #nn.phase<update>} : tensor<8xf32>
      %new_p, %new_m = nn.sgd %host_p, %host_g, %m enable %on scale %lr lr %lr momentum %lr weight_decay %lr factors <decay = 0.0>
          {nn.phase = #nn.phase<update>} : tensor<8xf32>, tensor<f32>
      %device_p = mem.reload %new_p {nn.phase = #nn.phase<update>} : tensor<8xf32>
      return %device_p, %new_m : tensor<8xf32>, tensor<8xf32>
    }
    ```
  }];
  let options = FlagsOf<"shale-materialize-offload">.options;
  let dependentDialects = ["::shale::mem::MemDialect"];
}

def VerifyMemoryPass : Pass<"shale-verify-memory", "::mlir::func::FuncOp"> {
  let summary = "Exit contract of memory: checks gathers, recomputed ops and memory spaces";
  let description = [{
    The exit contract of the memory stage:

    - A group whose gathers have `mem.recompute` is gathered exactly once per
      interval of use, any other group once per function.
    - No op after the forward pass reads the result of another op with
      `mem.recompute`.
    - Recomputed ops read kept values through a barrier.
    - No gather is identical to a gather with `mem.recompute`.
    - The operands of each op are in the memory where it runs.

    Refused:
    ```mlir
    func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> {
      %a = nn.exp %x {mem.recompute, nn.phase = #nn.phase<forward>} : tensor<8xf32>
      %dx = nn.neg %a {nn.phase = #nn.phase<backward>} : tensor<8xf32>
      return %dx : tensor<8xf32>
    }
    ```
    with "reads a result with mem.recompute after the forward pass: it must read the recomputed op".

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
  let options = FlagsOf<"shale-verify-memory">.options;
}

#endif // SHALE_MEMORY_PASSES_TD
