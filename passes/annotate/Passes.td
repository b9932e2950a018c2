//===- Passes.td - Passes of the annotate stage ---------------------------===//
#ifndef SHALE_ANNOTATE_PASSES_TD
#define SHALE_ANNOTATE_PASSES_TD

include "lib/Options/Options.td"
include "mlir/Pass/PassBase.td"

def AnnotateTargetPass : Pass<"shale-annotate-target", "::mlir::ModuleOp"> {
  let summary = "Names the target that the module is compiled for";
  let description = [{
    Sets `nn.target` on the module. Later passes query the target for the ops that
    become library calls, for how it generates kernels and for what its libraries
    accept. Without the attribute they assume `kAssumedTarget` of
    lib/Target/Target.h.

    `native` is resolved here: the attribute becomes the name of this machine's CPU.

    Before (with `target=cpu:x86-64-v3`):

    ```mlir
    module {
    }
    ```

    After:

    ```mlir
    module attributes {nn.target = "cpu:x86-64-v3"} {
    }
    ```
  }];
  let options = FlagsOf<"shale-annotate-target">.options;
}

def AnnotateMeshPass : Pass<"shale-annotate-mesh", "::mlir::ModuleOp"> {
  let summary = "Declares the mesh and the sharding strategy";
  let description = [{
    Adds `dist.mesh @mesh` and `dist.strategy` to the module. Adds
    `dist.keep_gathered` if a gathered unit stays gathered from forward to the end
    of backward, and `dist.reduce_once` if gradients are accumulated over
    micro-batches unreduced and reduced once per step. Adds
    `dist.keep_single_rank` if collectives along axes of one rank remain: a
    communicator can then be checked on one device. Adds `dist.quantize_gathers` if
    units are gathered in an encoding or another type, and `dist.wide_sums` if sums over tensor axes
    are not rounded before they are sent.

    In the example two replicas of the model are sharded over four ranks each.

    Before (with `mesh=replica=2,fsdp=4 reshard-after-forward=false sync-every-microbatch=false`):

    ```mlir
    module {
    }
    ```

    After:

    ```mlir
    module attributes {dist.keep_gathered, dist.reduce_once, dist.strategy = #dist.strategy<full>} {
      dist.mesh @mesh <[replica "replica"=2, shard "fsdp"=4]>
    }
    ```
  }];
  let options = FlagsOf<"shale-annotate-mesh">.options;
  let dependentDialects = ["::shale::dist::DistDialect"];
}

def AnnotateUnitsPass : Pass<"shale-annotate-units", "::mlir::ModuleOp"> {
  let summary = "Assigns parameters and buffers to units";
  let description = [{
    Sets `unit` on every parameter and buffer. The policies are:

    - `block`: units are the blocks, that is, the outermost module scopes that
      repeat with an index. Scopes that differ only in the index are a family; a
      family with less than a tenth of the elements of the largest one has no
      units. The outermost modules that enclose no block, such as an embedding or
      an output layer, are units too if they have at least a quarter of the
      elements of the largest block.
    - `class:NAME`: units are the modules of that class, as the exporter named it.
    - `size:N`: a module is a unit if its parameters that are in no smaller unit
      reach N elements (K, M, G are powers of 1000).
    - `match:REGEX`: a unit is the outermost scope in which REGEX matches.

    A tied parameter belongs to the innermost unit that encloses all its names and
    users. What no unit encloses belongs to `root`.

    Before (with `unit=block`):

    ```mlir
    nn.state @embed.weight role = param type = tensor<32x8xf32>
    nn.state @norm.weight role = param type = tensor<8xf32>
    nn.state @layers.0.attn.weight role = param type = tensor<8x8xf32>
    nn.state @layers.0.mlp.weight role = param type = tensor<8x8xf32>
    nn.state @layers.1.attn.weight role = param type = tensor<8x8xf32>
    nn.state @layers.1.mlp.weight role = param type = tensor<8x8xf32>
    ```

    After:

    ```mlir
    nn.state @embed.weight role = param type = tensor<32x8xf32> {unit = "embed"}
    nn.state @norm.weight role = param type = tensor<8xf32> {unit = "root"}
    nn.state @layers.0.attn.weight role = param type = tensor<8x8xf32> {unit = "layers.0"}
    nn.state @layers.0.mlp.weight role = param type = tensor<8x8xf32> {unit = "layers.0"}
    nn.state @layers.1.attn.weight role = param type = tensor<8x8xf32> {unit = "layers.1"}
    nn.state @layers.1.mlp.weight role = param type = tensor<8x8xf32> {unit = "layers.1"}
    ```
  }];
  let options = FlagsOf<"shale-annotate-units">.options;
}

def AnnotateRangesPass : Pass<"shale-annotate-ranges", "::mlir::ModuleOp"> {
  let summary = "Sets the range of valid values of integer inputs";
  let description = [{
    Sets `nn.bound`, and `nn.ignored` if there is an ignored index, on inputs and
    labels that ops use as indices (`IndexUserOpInterface`): rows of a table, classes of a
    cross-entropy. The program rejects data with other values.

    In the example `%ids` selects one of 32 rows, and `%labels` one of 10 classes
    or none.

    Before:

    ```mlir
    func.func @forward(%ids: tensor<4xi64> {nn.role = #nn.role<input>},
                       %labels: tensor<4xi64> {nn.role = #nn.role<label>},
                       %table: tensor<32x8xf32>, %weight: tensor<8x10xf32>) -> tensor<f32> {
      %rows = nn.embedding %table, %ids : (tensor<32x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
      %logits = nn.matmul %rows, %weight : (tensor<4x8xf32>, tensor<8x10xf32>) -> tensor<4x10xf32>
      %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<4x10xf32>, tensor<4xi64>
      return %sum : tensor<f32>
    }
    ```

    After:

    ```mlir
    func.func @forward(%ids: tensor<4xi64> {nn.bound = 32 : i64, nn.role = #nn.role<input>},
                       %labels: tensor<4xi64> {nn.bound = 10 : i64, nn.ignored = -100 : i64, nn.role = #nn.role<label>},
                       %table: tensor<32x8xf32>, %weight: tensor<8x10xf32>) -> tensor<f32> {
      %rows = nn.embedding %table, %ids : (tensor<32x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
      %logits = nn.matmul %rows, %weight : (tensor<4x8xf32>, tensor<8x10xf32>) -> tensor<4x10xf32>
      %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<4x10xf32>, tensor<4xi64>
      return %sum : tensor<f32>
    }
    ```
  }];
}

def AnnotatePrecisionPass : Pass<"shale-annotate-precision", "::mlir::ModuleOp"> {
  let summary = "Sets the element types in which values are computed and stored";
  let description = [{
    Sets `nn.precision` on the module. `reduce` and `buffer` default to f32.
    `master` is f32 or none; with none, parameters are stored in the type in which
    they are used.

    Before (with `param-dtype=bf16`):

    ```mlir
    module {
    }
    ```

    After:

    ```mlir
    module attributes {nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
    }
    ```
  }];
  let options = FlagsOf<"shale-annotate-precision">.options;
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def AnnotateMatmulsPass : Pass<"shale-annotate-matmuls", "::mlir::ModuleOp"> {
  let summary = "Chooses the matmuls whose operands are rounded to 8-bit floats";
  let description = [{
    Sets `quantized` on each `nn.matmul` of a matrix and a parameter, or a view, part or cast of one.
    Its gradients will have it, too. Not on the matmuls of the head: those from which the loss follows
    without another matmul.

    Fails if the target has no such matmuls (`Target::has8BitMatmuls`), if parameters are not used in
    bf16, or if the model's file computes the gradients.

    Before:

    ```mlir
    module attributes {nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
      nn.state @w role = param type = tensor<32x16xf32>
      nn.state @head role = param type = tensor<48x32xf32>
      func.func @forward(%x: tensor<16x16xf32>, %w: tensor<32x16xf32> {nn.state = @w}, %head: tensor<48x32xf32> {nn.state = @head}) -> tensor<16x48xf32> {
        %0 = nn.matmul %x, %w transpose_rhs : (tensor<16x16xf32>, tensor<32x16xf32>) -> tensor<16x32xf32>
        %1 = nn.matmul %0, %head transpose_rhs : (tensor<16x32xf32>, tensor<48x32xf32>) -> tensor<16x48xf32>
        return %1 : tensor<16x48xf32>
      }
    }
    ```

    After:

    ```mlir
    module attributes {nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
      nn.state @w role = param type = tensor<32x16xf32>
      nn.state @head role = param type = tensor<48x32xf32>
      func.func @forward(%x: tensor<16x16xf32>, %w: tensor<32x16xf32> {nn.state = @w}, %head: tensor<48x32xf32> {nn.state = @head}) -> tensor<16x48xf32> {
        %0 = nn.matmul %x, %w transpose_rhs quantized [f8E4M3FN, f8E4M3FN] : (tensor<16x16xf32>, tensor<32x16xf32>) -> tensor<16x32xf32>
        %1 = nn.matmul %0, %head transpose_rhs : (tensor<16x32xf32>, tensor<48x32xf32>) -> tensor<16x48xf32>
        return %1 : tensor<16x48xf32>
      }
    }
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def FreezePass : Pass<"shale-freeze", "::mlir::ModuleOp"> {
  let summary = "Marks parameters that are not trained";
  let description = [{
    Sets `trained = false` on every parameter with a name in which REGEX (POSIX
    extended) matches. A REGEX that matches no parameter is an error.

    In the example the last parameter is tied, and its second name matches.

    Before (with `freeze=embed`):

    ```mlir
    nn.state @embed.position.weight role = param type = tensor<16x8xf32>
    nn.state @layers.0.weight role = param type = tensor<8x8xf32>
    nn.state @head.weight role = param type = tensor<32x8xf32> {names = ["embed.token.weight"]}
    ```

    After:

    ```mlir
    nn.state @embed.position.weight role = param type = tensor<16x8xf32> {trained = false}
    nn.state @layers.0.weight role = param type = tensor<8x8xf32>
    nn.state @head.weight role = param type = tensor<32x8xf32> {names = ["embed.token.weight"], trained = false}
    ```
  }];
  let options = FlagsOf<"shale-freeze">.options;
}

def NoDecayPass : Pass<"shale-no-decay", "::mlir::ModuleOp"> {
  let summary = "Marks parameters without weight decay";
  let description = [{
    Sets `decay = 0` on every parameter with a name in which REGEX (POSIX
    extended) matches. A REGEX that matches no parameter is an error.

    Before (with `no-decay=norm|bias`):

    ```mlir
    nn.state @layers.0.norm.weight role = param type = tensor<8xf32>
    nn.state @layers.0.mlp.weight role = param type = tensor<8x8xf32>
    nn.state @layers.0.mlp.bias role = param type = tensor<8xf32>
    ```

    After:

    ```mlir
    nn.state @layers.0.norm.weight role = param type = tensor<8xf32> {factors = #nn.update_factors<decay = 0.0>}
    nn.state @layers.0.mlp.weight role = param type = tensor<8x8xf32>
    nn.state @layers.0.mlp.bias role = param type = tensor<8xf32> {factors = #nn.update_factors<decay = 0.0>}
    ```
  }];
  let options = FlagsOf<"shale-no-decay">.options;
}

def ScaleUpdatesPass : Pass<"shale-scale-updates", "::mlir::ModuleOp"> {
  let summary = "Gives parameters a factor on scalars of their update";
  let description = [{
    Sets the factor (`#nn.update_factors`) with the name `factor` to X on every parameter with a
    name in which a REGEX (POSIX extended) of `REGEX=X` matches. The update of the parameter
    multiplies scalars of its formula by X: those that `NN_FactorOn` names. `lr_scale` multiplies
    the learning rate of the step, and with it the weight decay. A REGEX that matches no parameter, and a parameter to which two
    entries give different factors, are errors.

    Before (with `factor=lr_scale values=embed=0.1,head=2`):

    ```mlir
    nn.state @embed.weight role = param type = tensor<16x8xf32>
    nn.state @layers.0.weight role = param type = tensor<8x8xf32>
    nn.state @head.weight role = param type = tensor<16x8xf32>
    ```

    After:

    ```mlir
    nn.state @embed.weight role = param type = tensor<16x8xf32> {factors = #nn.update_factors<lr_scale = 1.000000e-01>}
    nn.state @layers.0.weight role = param type = tensor<8x8xf32>
    nn.state @head.weight role = param type = tensor<16x8xf32> {factors = #nn.update_factors<lr_scale = 2.000000e+00>}
    ```
  }];
  let options = [Option<"factor", "factor", "std::string", "\"\"", "the name of the factor, as in #nn.update_factors">,
                 Option<"values", "values", "::shale::UpdateScales", "::shale::UpdateScales()", "REGEX=X, separated by commas">];
}

def AssignOptimizersPass : Pass<"shale-assign-optimizers", "::mlir::ModuleOp"> {
  let summary = "Chooses the optimizer of each parameter";
  let description = [{
    An optimizer that updates matrices (Muon) leaves other parameters to another one (AdamW). This pass sets
    `nn.optimizer` on the parameters of the other one: all but the matrices of hidden layers. Such a matrix has two
    dimensions, a matmul reads it, no op reads it by index, and it is not in the last matmul before the logits (before
    the results, where no loss is one of rows). REGEX=NAME, of POSIX extended expressions, makes another choice. A REGEX that
    matches no parameter, two entries that give a parameter different optimizers, and a parameter of other than two
    dimensions that is to be updated as a matrix are errors. The pass does nothing for other optimizers.

    Before (with `optimizer=muon optimizer-for=router=adamw`):

    ```mlir
    nn.state @layers.0.weight role = param type = tensor<8x8xf32>
    nn.state @layers.0.router role = param type = tensor<8x8xf32>
    nn.state @head.weight role = param type = tensor<8x8xf32>
    func.func @forward(%x: tensor<4x8xf32>, %w: tensor<8x8xf32> {nn.state = @layers.0.weight}, %r: tensor<8x8xf32> {nn.state = @layers.0.router}, %h: tensor<8x8xf32> {nn.state = @head.weight}) -> tensor<4x8xf32> {
      %0 = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %1 = nn.matmul %0, %r : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %2 = nn.matmul %1, %h : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      return %2 : tensor<4x8xf32>
    }
    ```

    After:

    ```mlir
    nn.state @layers.0.weight role = param type = tensor<8x8xf32>
    nn.state @layers.0.router role = param type = tensor<8x8xf32> {nn.optimizer = "adamw"}
    nn.state @head.weight role = param type = tensor<8x8xf32> {nn.optimizer = "adamw"}
    ...
    ```
  }];
  let options = FlagsOf<"shale-assign-optimizers">.options;
}

def AnnotateTensorPass : Pass<"shale-annotate-tensor", "::mlir::ModuleOp"> {
  let summary = "Marks the parameters that tensor axes split";
  let description = [{
    Sets `dist.tensor` on every parameter with a name in which a REGEX (POSIX
    extended) of the plan matches. A REGEX that matches no parameter, and a
    parameter that two entries split in different ways, are errors.

    Before (with `tensor=q_proj|up=column,o_proj|down=row`):

    ```mlir
    dist.mesh @mesh <[tensor "tp"=2]>
    nn.state @layers.0.q_proj.weight role = param type = tensor<8x8xf32>
    nn.state @layers.0.norm.weight role = param type = tensor<8xf32>
    nn.state @layers.0.up.weight role = param type = tensor<16x8xf32>
    nn.state @layers.0.down.weight role = param type = tensor<8x16xf32>
    ```

    After:

    ```mlir
    dist.mesh @mesh <[tensor "tp"=2]>
    nn.state @layers.0.q_proj.weight role = param type = tensor<8x8xf32> {dist.tensor = #dist.tensor_split<column>}
    nn.state @layers.0.norm.weight role = param type = tensor<8xf32>
    nn.state @layers.0.up.weight role = param type = tensor<16x8xf32> {dist.tensor = #dist.tensor_split<column>}
    nn.state @layers.0.down.weight role = param type = tensor<8x16xf32> {dist.tensor = #dist.tensor_split<row>}
    ```
  }];
  let options = FlagsOf<"shale-annotate-tensor">.options;
}

#endif // SHALE_ANNOTATE_PASSES_TD
