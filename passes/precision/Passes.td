//===- Passes.td - Passes of the precision stage --------------------------===//
#ifndef SHALE_PRECISION_PASSES_TD
#define SHALE_PRECISION_PASSES_TD

include "mlir/Pass/PassBase.td"

def PrecisionPass : Pass<"shale-precision", "::mlir::ModuleOp"> {
  let summary = "Applies the precision policy to types and casts";
  let description = [{
    Reads the policy `nn.precision` from the module. The interface `PrecisionOpInterface`
    of each op gives the float types of its operands and results:

    - A parameter is used in the param type. With an f32 master all uses but the
      update read one `nn.cast` of it; without a master its state has the param
      type.
    - Matmuls, attention, norms and ops that only move their elements use
      the param type. Elementwise ops compute in f32; their results are rounded
      where another kind of op, or another phase, reads them. Statistics of norms,
      losses, sums and scalars stay in f32, and so does everything between the
      last matmul and the loss.
    - A parameter's gradient is summed in f32, also over micro-batches, and cast to
      the reduce type before the update and the norm, which read the same value.
      If the reduce type is the param type and there is one micro-batch, the
      matmuls round it themselves.
    - Buffers and optimizer state have the types of the policy.
    - A finite constant that a 16-bit type does not have becomes the type's largest finite number of its sign, and so
      does what elementwise ops of the forward pass compute from one, where it is rounded: a masked score is not
      infinite. Gradients are not clamped: if they overflow, the loss scale is too large.

    Uses of a value share one cast per type where possible, and no two casts
    cancel. From the casts `shale-materialize-units` derives in which type a unit
    is sent and reduced.

    In the example the loss is the mean of the squares of `%y`. Both matrix
    matmuls read bf16, but the second one returns the gradient in f32, and the
    update reads the master.

    Before:

    ```mlir
    module attributes {nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
      nn.state @weight role = param type = tensor<8x8xf32>
      nn.state @velocity role = moment("momentum") type = tensor<8x8xf32> {of = @weight}
      func.func @step(%x: tensor<4x8xf32>, %weight: tensor<8x8xf32> {nn.state = @weight},
                      %velocity: tensor<8x8xf32> {nn.state = @velocity}, %hyper: tensor<f32>, %enable: tensor<i1>)
          -> (tensor<8x8xf32> {nn.state = @weight}, tensor<8x8xf32> {nn.state = @velocity}) {
        %share = nn.constant dense<0.0625> : tensor<4x8xf32>
        %y = nn.matmul %x, %weight : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
        %dy = nn.mul %y, %share : tensor<4x8xf32>
        %gradient = nn.matmul %x, %dy transpose_lhs : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
        %w, %v = nn.sgd %weight, %gradient, %velocity enable %enable scale %hyper
            lr %hyper momentum %hyper weight_decay %hyper : tensor<8x8xf32>, tensor<f32>
        return %w, %v : tensor<8x8xf32>, tensor<8x8xf32>
      }
    }
    ```

    After:

    ```mlir
    module attributes {nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
      nn.state @weight role = param type = tensor<8x8xf32>
      nn.state @velocity role = moment("momentum") type = tensor<8x8xf32> {of = @weight}
      func.func @step(%x: tensor<4x8xf32>, %weight: tensor<8x8xf32> {nn.state = @weight},
                      %velocity: tensor<8x8xf32> {nn.state = @velocity}, %hyper: tensor<f32>, %enable: tensor<i1>)
          -> (tensor<8x8xf32> {nn.state = @weight}, tensor<8x8xf32> {nn.state = @velocity}) {
        %share = nn.constant dense<0.0625> : tensor<4x8xf32>
        %weight_half = nn.cast %weight : tensor<8x8xf32> -> tensor<8x8xbf16>
        %x_half = nn.cast %x : tensor<4x8xf32> -> tensor<4x8xbf16>
        %y_half = nn.matmul %x_half, %weight_half : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
        %y = nn.cast %y_half : tensor<4x8xbf16> -> tensor<4x8xf32>
        %dy = nn.mul %y, %share : tensor<4x8xf32>
        %dy_half = nn.cast %dy : tensor<4x8xf32> -> tensor<4x8xbf16>
        %gradient = nn.matmul %x_half, %dy_half transpose_lhs : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xf32>
        %w, %v = nn.sgd %weight, %gradient, %velocity enable %enable scale %hyper
            lr %hyper momentum %hyper weight_decay %hyper : tensor<8x8xf32>, tensor<f32>
        return %w, %v : tensor<8x8xf32>, tensor<8x8xf32>
      }
    }
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def RoundParametersPass : Pass<"shale-round-parameters", "::mlir::ModuleOp"> {
  let summary = "Rounds new parameters of bf16 stochastically";
  let description = [{
    Gives every update of a parameter of bf16 (`RoundedUpdateOpInterface`) a seed and a step to round by. These
    are the arguments of the function with the roles seed and step, which are added to all functions that have none. The
    elements of all parameters are numbered in the order of their states, so that no two draw the same bits.
    A parameter's first number is a multiple of 32, and of the elements that a block of its state has.

    Fails if a parameter is of f16.

    Before:

    ```mlir
    module {
      nn.state @frozen role = param type = tensor<40xbf16>
      nn.state @weight role = param type = tensor<8x8xbf16>
      nn.state @velocity role = moment("momentum") type = tensor<8x8xf32> {of = @weight}
      func.func @step(%weight: tensor<8x8xbf16> {nn.state = @weight}, %velocity: tensor<8x8xf32> {nn.state = @velocity},
                      %gradient: tensor<8x8xf32>, %hyper: tensor<f32>, %enable: tensor<i1>)
          -> (tensor<8x8xbf16> {nn.state = @weight}, tensor<8x8xf32> {nn.state = @velocity}) {
        %w, %v = nn.sgd %weight, %gradient, %velocity enable %enable scale %hyper lr %hyper momentum %hyper weight_decay %hyper
            : tensor<8x8xbf16> grad tensor<8x8xf32> state tensor<8x8xf32>, tensor<f32>
        return %w, %v : tensor<8x8xbf16>, tensor<8x8xf32>
      }
    }
    ```

    After:

    ```mlir
    module {
      nn.state @frozen role = param type = tensor<40xbf16>
      nn.state @weight role = param type = tensor<8x8xbf16>
      nn.state @velocity role = moment("momentum") type = tensor<8x8xf32> {of = @weight}
      func.func @step(%weight: tensor<8x8xbf16> {nn.state = @weight}, %velocity: tensor<8x8xf32> {nn.state = @velocity},
                      %gradient: tensor<8x8xf32>, %hyper: tensor<f32>, %enable: tensor<i1>,
                      %seed: tensor<i64> {nn.name = "random.seed", nn.role = #nn.role<seed>},
                      %step: tensor<i64> {nn.name = "random.step", nn.role = #nn.role<step>})
          -> (tensor<8x8xbf16> {nn.state = @weight}, tensor<8x8xf32> {nn.state = @velocity}) {
        %w, %v = nn.sgd %weight, %gradient, %velocity enable %enable scale %hyper lr %hyper momentum %hyper weight_decay %hyper
            rounded by %seed, %step : tensor<i64>, tensor<i64> {numbers = array<i64: 64>}
            : tensor<8x8xbf16> grad tensor<8x8xf32> state tensor<8x8xf32>, tensor<f32>
        return %w, %v : tensor<8x8xbf16>, tensor<8x8xf32>
      }
    }
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def VerifyPrecisionPass : Pass<"shale-verify-precision", "::mlir::ModuleOp"> {
  let summary = "Checks that the types of a step follow its precision policy";
  let description = [{
    The exit contract of the precision stage, for a module with `nn.precision`:
    states have the types of the policy; every use of a parameter but its update
    is in the param type; updates take gradients of the reduce type; metrics are
    f32; no cast undoes another one.

    Refused:

    ```mlir
    module attributes {nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
      nn.state @weight role = param type = tensor<8x8xf32>
      func.func @forward(%x: tensor<4x8xf32>, %weight: tensor<8x8xf32> {nn.state = @weight}) -> tensor<4x8xf32> {
        %y = nn.matmul %x, %weight : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
        return %y : tensor<4x8xf32>
      }
    }
    ```

    with "uses parameter 'weight' in 'f32', not in 'bf16'".
  }];
}

#endif // SHALE_PRECISION_PASSES_TD
