//===- Passes.td - Passes of the sharding stage ---------------------------===//
#ifndef SHALE_SHARDING_PASSES_TD
#define SHALE_SHARDING_PASSES_TD

include "lib/Options/Options.td"
include "mlir/Pass/PassBase.td"

include "passes/sharding/DivisionPasses.td"

def GroupSumsPass : Pass<"shale-group-sums", "::mlir::ModuleOp"> {
  let summary = "Adds the results of matmuls before other terms of a sum";
  let description = [{
    With a tensor axis, the result of a matmul may be a partial sum. Linear ops keep it partial, but a sum
    with a term that is whole needs an all-reduce of the partial term. So (x + a) + b with a whole x and partial
    a and b takes two all-reduces, and x + (a + b) takes one. BERT, which normalizes after the residual, has such
    sums in the backward pass: x is the gradient of the residual, a and b are the gradients of query and key.

    The pass replaces (x + a) + b by x + (a + b) if a and b are results of matmuls or sums of such results, x is
    neither, and nothing else reads x + a. It looks through ops with one operand, such as casts, transposes and
    views. Without a tensor axis nothing changes.

    Before:
    ```mlir
    dist.mesh @mesh <[tensor "tp"=2]>
    func.func @backward(%x: tensor<4x8xf32>, %q: tensor<4x6xf32>, %k: tensor<4x6xf32>, %wq: tensor<6x8xf32>, %wk: tensor<6x8xf32>) -> tensor<4x8xf32> {
      %a = nn.matmul %q, %wq : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
      %y = nn.add %x, %a : tensor<4x8xf32>
      %b = nn.matmul %k, %wk : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
      %z = nn.add %y, %b : tensor<4x8xf32>
      return %z : tensor<4x8xf32>
    }
    ```

    After:
    ```mlir
    dist.mesh @mesh <[tensor "tp"=2]>
    func.func @backward(%x: tensor<4x8xf32>, %q: tensor<4x6xf32>, %k: tensor<4x6xf32>, %wq: tensor<6x8xf32>, %wk: tensor<6x8xf32>) -> tensor<4x8xf32> {
      %a = nn.matmul %q, %wq : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
      %b = nn.matmul %k, %wk : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
      %s = nn.add %a, %b : tensor<4x8xf32>
      %z = nn.add %x, %s : tensor<4x8xf32>
      return %z : tensor<4x8xf32>
    }
    ```
  }];
}

def PlanShardingPass : Pass<"shale-plan-sharding", "::mlir::ModuleOp"> {
  let summary = "Lays out parameters over tensor axes";
  let description = [{
    Gives the arguments of parameters a sharding over tensor axes. A parameter with `dist.tensor` is
    split as this says: `column` is the first dimension that the results of its matmuls in the forward
    pass have, `row` the first one that they sum over, found through casts, transposes and views. Uses that
    are no matmuls count if there are no matmuls. A vector that is `row` stays whole: it is added to the
    sum. A size that does not divide, and a parameter without such a dimension, are errors.

    The other parameters are split by a search. A region is a block, with its forward and backward
    ops, or all that is in no block; blocks of the same parameters are searched once. Values that enter
    or leave a region are whole. Dimensions of parameters that
    are one factor of the forward pass are a class: the heads of an attention, the hidden size of an MLP, the rank of an adapter. A
    class is split or not, and no parameter is split twice. For each choice the layouts of all values follow by
    propagation. Choices are compared by the bytes that ranks gather, then by the elements that each rank
    holds whole, then by the bytes that are summed over ranks; the choice with the lowest numbers is taken. A class that gathers by
    itself is left out. Vectors are split as all of their uses need them. Up to 256 choices are
    tried. With more, pairs of neighbouring classes are tried.
    If matrices of a block stay whole, the search runs again with open values. An open value may enter or leave a
    region in any layout. A value is open if it is computed from parameters and constants alone, such as the position bias
    of T5, which all blocks read, or if it is part of the gradient of such a value. The pass takes the plan that costs
    less over all regions. A context searches equal regions once, whatever the module.
    Names play no part. A remark lists what was found. If nothing is split, that is an error.

    Before:
    ```mlir
    dist.mesh @mesh <[tensor "tp"=2]>
    nn.state @up role = param type = tensor<6x8xf32> {dist.tensor = #dist.tensor_split<column>}
    nn.state @down role = param type = tensor<8x6xf32> {dist.tensor = #dist.tensor_split<row>}
    func.func @forward(%x: tensor<4x8xf32>, %up: tensor<6x8xf32> {nn.state = @up}, %down: tensor<8x6xf32> {nn.state = @down}) -> tensor<4x8xf32> {
      %h = nn.matmul %x, %up transpose_rhs : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
      %y = nn.matmul %h, %down transpose_rhs : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    ```

    After:
    ```mlir
    dist.mesh @mesh <[tensor "tp"=2]>
    nn.state @up role = param type = tensor<6x8xf32> {dist.plan = "split along dimension 0, as --tensor says", dist.tensor = #dist.tensor_split<column>}
    nn.state @down role = param type = tensor<8x6xf32> {dist.plan = "split along dimension 1, as --tensor says", dist.tensor = #dist.tensor_split<row>}
    func.func @forward(%x: tensor<4x8xf32>, %up: tensor<6x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {} ]>, nn.state = @up},
                       %down: tensor<8x6xf32> {dist.sharding = #dist.sharding<[{}, {"tp"} ]>, nn.state = @down}) -> tensor<4x8xf32> {
      %h = nn.matmul %x, %up transpose_rhs : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
      %y = nn.matmul %h, %down transpose_rhs : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    ```
  }];
  let options = [Option<"exhaustive", "exhaustive", "bool", "false", "for tests: tries all choices of all parameters">];
}

def PropagatePass : Pass<"shale-propagate", "::mlir::ModuleOp"> {
  let summary = "Gives every value a sharding";
  let description = [{
    Starts from inputs, whose batch dimension is split over the data axes, from
    `dist.sharding` on arguments and from `dist.constrain`; state is replicated by
    default. Splits are propagated along the factors of each op's rule, first
    forward, then backward to values that have no split yet (constants,
    positions), until nothing changes. Data axes are propagated first. A factor
    that is split stays split: where operands disagree, partition reshards.
    Sums over a split factor are partial, and stay partial through linear ops.

    Requires: a mesh. Ensures: `dist.sharding` on every argument of every
    function, `dist.shardings` on every op with results, and `dist.factors`, which axes
    split which factors of the op's rule, if it splits any.

    A batch size that is not a multiple of the number of ranks of the data axes is
    an error, which suggests valid sizes.

    In the example the batch is split over "fsdp", and attributes of the arguments
    split the weights over "tp". The second `nn.matmul` sums over a split dimension,
    so its result is partial. `nn.tanh` is not linear, so its operand must be whole.

    Before:
    ```mlir
    dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
    func.func @forward(%x: tensor<4x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
                       %up: tensor<8x6xf32> {dist.sharding = #dist.sharding<[{}, {"tp"} ]>},
                       %down: tensor<6x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {} ]>}) -> tensor<4x8xf32> {
      %h = nn.matmul %x, %up : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
      %a = nn.gelu %h : tensor<4x6xf32>
      %y = nn.matmul %a, %down : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
      %z = nn.tanh %y : tensor<4x8xf32>
      return %z : tensor<4x8xf32>
    }
    ```

    After:
    ```mlir
    #rows = #dist.sharding<[{"fsdp"}, {} ]>
    #rows_and_columns = #dist.sharding<[{"fsdp"}, {"tp"} ]>
    #rows_of_partial_sums = #dist.sharding<[{"fsdp"}, {} ], partial = {"tp": sum}>
    dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
    func.func @forward(%x: tensor<4x8xf32> {dist.sharding = #rows, nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
                       %up: tensor<8x6xf32> {dist.sharding = #dist.sharding<[{}, {"tp"} ]>},
                       %down: tensor<6x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {} ]>}) -> tensor<4x8xf32> {
      %h = nn.matmul %x, %up {dist.factors = #dist.sharding<[{"fsdp"}, {"tp"}, {} ]>, dist.shardings = [#rows_and_columns]} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
      %a = nn.gelu %h {dist.factors = #rows_and_columns, dist.shardings = [#rows_and_columns]} : tensor<4x6xf32>
      %y = nn.matmul %a, %down {dist.factors = #dist.sharding<[{"fsdp"}, {}, {"tp"} ]>, dist.shardings = [#rows_of_partial_sums]} : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
      %z = nn.tanh %y {dist.factors = #rows, dist.shardings = [#rows]} : tensor<4x8xf32>
      return %z : tensor<4x8xf32>
    }
    ```
  }];
  let dependentDialects = ["::shale::dist::DistDialect"];
}

def SplitSequencePass : Pass<"shale-split-sequence", "::mlir::ModuleOp"> {
  let summary = "Splits the rows of activations between the matmuls of a layer";
  let description = [{
    Sequence parallelism, as in Megatron: a sum over the ranks of tensor axes that
    other ops need whole is reduce-scattered over rows, and rows are gathered before matmuls
    that the axes split along another dimension. Norms, dropouts and residuals in between work
    on 1/N of the rows and take 1/N of the memory; together the exchanges send as many bytes as the
    all-reduces. What the forward pass has gathered is gathered again for the
    backward pass, and not kept.

    Inserts `dist.constrain`s only. Rows are examples, if a data rank has a multiple of N of them;
    else the positions of each example, if their number is a multiple of N; otherwise
    nothing changes, and a warning has the bytes that this costs. With
    `sequence-parallel=true`, that is an error.

    Works on the layouts that `shale-propagate` would find. Ensures: no shardings on ops;
    those of arguments stay.

    In the example, matmuls sum over "tp".

    Before:
    ```mlir
    dist.mesh @mesh <[tensor "tp"=2]>
    func.func @forward(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {} ]>, nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
                       %up: tensor<8x6xf32> {dist.sharding = #dist.sharding<[{}, {"tp"} ]>},
                       %down: tensor<6x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {} ]>}) -> tensor<4x8xf32> {
      %h = nn.matmul %x, %up : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
      %y = nn.matmul %h, %down : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
      %z = nn.tanh %y : tensor<4x8xf32>
      return %z : tensor<4x8xf32>
    }
    ```

    After:
    ```mlir
    dist.mesh @mesh <[tensor "tp"=2]>
    func.func @forward(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {} ]>, nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
                       %up: tensor<8x6xf32> {dist.sharding = #dist.sharding<[{}, {"tp"} ]>},
                       %down: tensor<6x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {} ]>}) -> tensor<4x8xf32> {
      %h = nn.matmul %x, %up : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
      %y = nn.matmul %h, %down : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
      %rows = dist.constrain %y to <[{"tp"}, {} ]> : tensor<4x8xf32>
      %z = nn.tanh %rows : tensor<4x8xf32>
      return %z : tensor<4x8xf32>
    }
    ```
  }];
  let dependentDialects = ["::shale::dist::DistDialect"];
  let options = FlagsOf<"shale-split-sequence">.options;
}

def VerifyShardedPass : Pass<"shale-verify-sharded", "::mlir::ModuleOp"> {
  let summary = "Checks that every value has a sharding";
  let description = [{
    The exit contract of propagation: every argument and every op result of every
    function has a sharding, and each op can compute its results in it.

    The softmax below needs its last dimension whole, which is split over "tp".

    Refused:
    ```mlir
    #columns = #dist.sharding<[{}, {"tp"} ]>
    dist.mesh @mesh <[tensor "tp"=2]>
    func.func @forward(%x: tensor<4x8xf32> {dist.sharding = #columns}) -> tensor<4x8xf32> {
      %y = nn.softmax %x {dist.factors = #columns, dist.shardings = [#columns]} : tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    ```
    with "'nn.softmax' op axis 'tp' cannot split its factor 1".
  }];
}

def PartitionPass : Pass<"shale-partition", "::mlir::ModuleOp"> {
  let summary = "Converts the program into the program of one rank";
  let description = [{
    Types become those of one rank's part. Where a value is needed in another
    layout than it has, collectives are inserted: partial values are
    reduce-scattered or all-reduced, then splits are exchanged by all-to-all,
    gathered by all-gather, or made by slicing. All-reduces over data axes come
    last. A sum of matmuls over tensor axes is sent in the 16-bit type to which
    the matmuls were rounded, unless the module has `dist.wide_sums`.

    An update and an `nn.accumulate` work on parts of the parameter's layout, so
    each gradient is all-reduced by itself. A norm is summed over the axes that
    split its operands. The program runs in this form: each rank stores its part of
    every parameter. `--shale-materialize-units` decides how it is stored.

    Requires: what `--shale-verify-sharded` checks. Ensures: functions have no
    shardings. The module has `dist.partitioned`, a state whose value is split has
    `dist.sharding`.

    In the example the partial sums are all-reduced before `nn.tanh`, which needs
    whole sums, and the result is all-gathered.

    Before:
    ```mlir
    dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
    func.func @forward(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {"tp"} ]>},
                       %w: tensor<8x6xf32> {dist.sharding = #dist.sharding<[{"tp"}, {} ]>}) -> tensor<4x6xf32> {
      %h = nn.matmul %x, %w {dist.factors = #dist.sharding<[{"fsdp"}, {}, {"tp"} ]>, dist.shardings = [#dist.sharding<[{"fsdp"}, {} ], partial = {"tp": sum}>]}
         : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
      %y = nn.tanh %h {dist.factors = #dist.sharding<[{"fsdp"}, {} ]>, dist.shardings = [#dist.sharding<[{"fsdp"}, {} ]>]} : tensor<4x6xf32>
      return %y : tensor<4x6xf32>
    }
    ```

    After:
    ```mlir
    module attributes {dist.partitioned} {
      dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
      func.func @forward(%x: tensor<2x4xf32>, %w: tensor<4x6xf32>) -> tensor<4x6xf32> {
        %partial = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
        %h = dist.all_reduce sum %partial over "tp" : tensor<2x6xf32>
        %y = nn.tanh %h : tensor<2x6xf32>
        %whole = dist.all_gather %y over "fsdp" dim = 0 : tensor<2x6xf32> -> tensor<4x6xf32>
        return %whole : tensor<4x6xf32>
      }
    }
    ```

  }];
  let dependentDialects = ["::shale::mem::MemDialect", "::shale::dist::DistDialect", "::shale::nn::NNDialect"];
}

def DelaySumsPass : Pass<"shale-delay-sums", "::mlir::ModuleOp"> {
  let summary = "Sums gradients over data axes last";
  let description = [{
    A gradient may be a linear function of sums over ranks and of values that are whole on every rank: with an L2 term of the
    parameters in the loss, it is the sum over ranks of their parts, plus the parameter times a constant. Such a gradient is no partial
    sum, so that its unit could not reduce it together with the others.

    The pass moves sums over data axes behind linear ops whose results only updates, sums over micro-batches and norms read. Whole values become
    partial sums: ranks other than the first of the axis have zeros.

    Requires: a program of one rank, as `--shale-partition` makes it.

    Before:
    ```mlir
    dist.mesh @mesh <[shard "fsdp"=2]>
    nn.state @w role = param type = tensor<4xf32>
    nn.state @m role = moment("momentum") type = tensor<4xf32> {of = @w}
    func.func @step(%part: tensor<4xf32>, %w: tensor<4xf32> {nn.state = @w}, %m: tensor<4xf32> {nn.state = @m}, %lr: tensor<f32>, %on: tensor<i1>)
        -> (tensor<4xf32> {nn.state = @w}, tensor<4xf32> {nn.state = @m}) {
      %sum = dist.all_reduce sum %part over "fsdp" : tensor<4xf32>
      %dw = nn.add %sum, %w : tensor<4xf32>
      %new_w, %new_m = nn.sgd %w, %dw, %m enable %on scale %lr lr %lr momentum %lr weight_decay %lr factors <decay = 0.0>
          : tensor<4xf32>, tensor<f32>
      return %new_w, %new_m : tensor<4xf32>, tensor<4xf32>
    }
    ```

    After:
    ```mlir
    dist.mesh @mesh <[shard "fsdp"=2]>
    nn.state @w role = param type = tensor<4xf32>
    nn.state @m role = moment("momentum") type = tensor<4xf32> {of = @w}
    func.func @step(%part: tensor<4xf32>, %w: tensor<4xf32> {nn.state = @w}, %m: tensor<4xf32> {nn.state = @m}, %lr: tensor<f32>, %on: tensor<i1>)
        -> (tensor<4xf32> {nn.state = @w}, tensor<4xf32> {nn.state = @m}) {
      %rank = dist.coordinate "fsdp" : tensor<i64>
      %zero = nn.constant dense<0> : tensor<i64>
      %isfirst = nn.compare eq %rank, %zero : tensor<i64> -> tensor<i1>
      %zeros = nn.constant dense<0.0> : tensor<4xf32>
      %first = nn.broadcast %isfirst dims = [] : tensor<i1> -> tensor<4xi1>
      %own = nn.select %first, %w, %zeros : tensor<4xi1>, tensor<4xf32>
      %mine = nn.add %part, %own : tensor<4xf32>
      %dw = dist.all_reduce sum %mine over "fsdp" : tensor<4xf32>
      %new_w, %new_m = nn.sgd %w, %dw, %m enable %on scale %lr lr %lr momentum %lr weight_decay %lr factors <decay = 0.0>
          : tensor<4xf32>, tensor<f32>
      return %new_w, %new_m : tensor<4xf32>, tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::shale::dist::DistDialect", "::shale::nn::NNDialect"];
}

def MaterializeUnitsPass : Pass<"shale-materialize-units", "::mlir::ModuleOp"> {
  let summary = "Stores parameters in flat groups, split according to the strategy";
  let description = [{
    Parameters move into the flat groups of `dist.unit`s, which are split at rest
    according to `dist.strategy`. Views of the groups replace the arguments.
    Gradients are packed and reduced, and updates run on the flat slice that the
    rank owns:

    | the strategy splits | if it does | if not |
    |---|---|---|
    | the optimizer's state | a slice at rest, gradients by a reduce-scatter | whole, gradients by an all-reduce |
    | gradients | reduced as soon as they are complete | by a reduce-scatter at the end; by an all-reduce as soon as complete |
    | parameters | a slice at rest, gathered for use | whole, the updated slices gathered |

    An update that is not elementwise (`GroupUpdateOpInterface`) builds its ops for
    the group or the slice, and its sums over slices are all-reduced. Optimizer state
    whose shape differs from that of its parameters is a separate group, with a slot,
    which is whole on every rank.

    All-reduces of gradients over data axes become reductions of the packed groups.
    A cast of a gradient before its update becomes a cast of the values that each
    rank packs. Micro-batches are summed in the accumulator's type. Unreduced sums
    are cast to the reduce type after the last micro-batch; a reduced slice is cast
    back to the accumulator's type and added.

    Requires: a program of one rank, as `--shale-partition` makes it. Ensures: the
    states of functions, except for scalars, are those with `dist.unit`.

    With strategy `full` each of two ranks holds 8 of the parameter's 16 elements. A
    rank gathers all 16 for use, and updates its 8 with its part of the gradient.

    Before:
    ```mlir
    module attributes {dist.strategy = #dist.strategy<full>} {
      dist.mesh @mesh <[shard "fsdp"=2]>
      nn.state @w role = param type = tensor<4x4xf32>
      nn.state @m role = moment("momentum") type = tensor<4x4xf32> {of = @w}
      func.func @step(%x: tensor<2x4xf32>, %w: tensor<4x4xf32> {nn.state = @w}, %m: tensor<4x4xf32> {nn.state = @m},
                      %lr: tensor<f32>, %on: tensor<i1>)
          -> (tensor<4x4xf32> {nn.state = @w}, tensor<4x4xf32> {nn.state = @m}) {
        %y = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
        %mine = nn.matmul %x, %y transpose_lhs : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
        %dw = dist.all_reduce sum %mine over "fsdp" : tensor<4x4xf32>
        %new_w, %new_m = nn.sgd %w, %dw, %m enable %on scale %lr lr %lr momentum %lr weight_decay %lr factors <decay = 0.0>
            : tensor<4x4xf32>, tensor<f32>
        return %new_w, %new_m : tensor<4x4xf32>, tensor<4x4xf32>
      }
    }
    ```

    After:
    ```mlir
    #segment = #dist.segment<@w, offset = 0, shape = [4, 4], factors = #nn.update_factors<decay = 0.0>>
    #group = #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 16, segments = [#segment]
        storage = <gathered f32 rest = "fsdp" update = "fsdp" sums = "fsdp" steps = [#dist.reduction_step<["fsdp"] scatter>]>>
    module attributes {dist.strategy = #dist.strategy<full>} {
      dist.mesh @mesh <[shard "fsdp"=2]>
      nn.state @w role = param type = tensor<4x4xf32>
      dist.unit @root on @mesh["fsdp"] groups = [#group]
      nn.state @root.f32 role = param type = tensor<16xf32>
          {dist.axis = "fsdp", dist.group = 0 : i64, dist.unit = @root, trained = true}
      nn.state @root.f32.momentum role = moment("momentum") type = tensor<16xf32>
          {of = @root.f32, dist.axis = "fsdp", dist.group = 0 : i64, dist.unit = @root, trained = true}
      func.func @step(%x: tensor<2x4xf32>, %shard: tensor<8xf32> {nn.state = @root.f32},
                      %m: tensor<8xf32> {nn.state = @root.f32.momentum}, %lr: tensor<f32>, %on: tensor<i1>)
          -> (tensor<8xf32> {nn.state = @root.f32}, tensor<8xf32> {nn.state = @root.f32.momentum}) {
        %flat = dist.unit_gather %shard @root[0] over "fsdp" {mem.recompute} : tensor<8xf32> -> tensor<16xf32>
        %w = dist.unit_view %flat @root[0] @w : tensor<16xf32> -> tensor<4x4xf32>
        %y = nn.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
        %dw = nn.matmul %x, %y transpose_lhs : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
        %packed = dist.unit_pack @root[0] [@w](%dw) : (tensor<4x4xf32>) -> tensor<16xf32>
        %mine = dist.reduce_scatter sum %packed over "fsdp" dim = 0 : tensor<16xf32> -> tensor<8xf32>
        %rank = dist.coordinate "fsdp" : tensor<i64>
        %count = nn.constant dense<8> : tensor<i64>
        %offset = nn.mul %rank, %count : tensor<i64>
        %new_shard, %new_m = nn.sgd %shard, %mine, %m enable %on scale %lr lr %lr momentum %lr weight_decay %lr
            offset %offset : tensor<i64> segments = [#nn.update_range<offset = 0, count = 16, factors = #nn.update_factors<decay = 0.0>>]
            : tensor<8xf32>, tensor<f32>
        return %new_shard, %new_m : tensor<8xf32>, tensor<8xf32>
      }
    }
    ```
  }];
  let dependentDialects = ["::shale::dist::DistDialect", "::shale::mem::MemDialect", "::shale::nn::NNDialect"];
}

def LowerCollectivesPass : Pass<"shale-lower-collectives", "::mlir::ModuleOp"> {
  let summary = "Expresses collectives that the runtime lacks by those that it has";
  let description = [{
    The runtime reduces sums only, and works along the first dimension.

    - A maximum over the ranks of an axis becomes an all-gather of the operands along a
      new first dimension and a local maximum over that dimension. This is exact, and
      the bits are those of any order. The softmax over a dimension that the batch
      splits needs it, as in a contrastive loss, with one element per row.
    - A gather, a reduce-scatter or a slice along another dimension works on the
      operand with that dimension first: pairs of the batch with itself need it.
    - An all-to-all becomes an all-gather and a slice of the whole value.

    Requires: a partitioned module. Ensures: no `dist.all_reduce max`, no
    `dist.all_to_all`, and no other dimension than the first.

    Before:
    ```mlir
    dist.mesh @mesh <[shard "fsdp"=2]>
    func.func @rows(%mine: tensor<4xf32>) -> tensor<4xf32> {
      %max = dist.all_reduce max %mine over "fsdp" : tensor<4xf32>
      return %max : tensor<4xf32>
    }
    ```

    After:
    ```mlir
    dist.mesh @mesh <[shard "fsdp"=2]>
    func.func @rows(%mine: tensor<4xf32>) -> tensor<4xf32> {
      %part = nn.reshape %mine : tensor<4xf32> -> tensor<1x4xf32>
      %parts = dist.all_gather %part over "fsdp" dim = 0 : tensor<1x4xf32> -> tensor<2x4xf32>
      %max = nn.reduce max %parts dims = [0] : tensor<2x4xf32> -> tensor<4xf32>
      return %max : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def VerifyCollectivesPass : Pass<"shale-verify-collectives", "::mlir::ModuleOp"> {
  let summary = "Checks that the runtime supports the collectives of a program";
  let description = [{
    The exit contract of the stage: reductions are sums, all-gathers and
    reduce-scatters run along the first dimension, and there is no all-to-all. If
    the batch is split along a dimension that an op needs whole, other collectives
    are needed; the error is reported at that op.

    Refused:
    ```mlir
    dist.mesh @mesh <[shard "fsdp"=2]>
    func.func @forward(%x: tensor<4x6xf32>) -> tensor<4x12xf32> {
      %whole = dist.all_gather %x over "fsdp" dim = 1 : tensor<4x6xf32> -> tensor<4x12xf32>
      return %whole : tensor<4x12xf32>
    }
    ```
    with "the runtime has no all-gather along dimension 1".
  }];
}

#endif // SHALE_SHARDING_PASSES_TD
