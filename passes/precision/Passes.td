//===- Passes.td - Types of values, of units and of state -----------------===//
#ifndef SHALE_PRECISION_PASSES_TD
#define SHALE_PRECISION_PASSES_TD

include "mlir/Pass/PassBase.td"

def PrecisionPass : Pass<"shale-precision", "::mlir::ModuleOp"> {
  let summary = "Puts the policy of element types into types and casts";
  let description = [{
    Reads `nn.precision` of the module and asks each op (interface `Precision`)
    in which types it takes and gives floats:

    - a parameter is used in the param type: with a master in f32 through one
      `nn.cast` that every use but the update reads, without a master because its
      state has that type;
    - products, attention, norms and what moves their elements are in the param
      type; element by element everything is computed in f32 and rounded where
      another kind of op, or another phase, reads it; statistics of norms, losses, sums and scalars stay in f32, and so does what
      lies between the last product and the loss;
    - a parameter's gradient is summed in f32, over micro-batches too, and cast to
      the reduce type in front of the update and of the norm, which read the same
      value; where products give the reduce type and there is one micro-batch, they
      round;
    - buffers and the optimizer's state have the types that the policy says.

    A cast stands once a value and type, never as a pair that cancels. The
    partitioner reads off the casts in which type a unit is sent and reduced.

    The loss is the mean of the squares of `%y`. Both products read bf16, but the
    second one gives the gradient in f32, and the update reads the master.

    Before:

    ```mlir
    module attributes {nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
      nn.state @weight role = param type = tensor<8x8xf32>
      nn.state @velocity role = momentum type = tensor<8x8xf32> {of = @weight}
      func.func @step(%x: tensor<4x8xf32>, %weight: tensor<8x8xf32> {nn.state = @weight},
                      %velocity: tensor<8x8xf32> {nn.state = @velocity}, %hyper: tensor<f32>, %enable: tensor<i1>)
          -> (tensor<8x8xf32> {nn.state = @weight}, tensor<8x8xf32> {nn.state = @velocity}) {
        %share = nn.constant dense<0.0625> : tensor<4x8xf32>
        %y = nn.matmul %x, %weight : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
        %dy = nn.mul %y, %share : tensor<4x8xf32>
        %gradient = nn.matmul %x, %dy transpose_lhs : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
        %w, %v = nn.sgd %weight, %gradient, %velocity enable %enable scale %hyper
            lr %hyper momentum %hyper weight_decay %hyper decay = 1.0 : tensor<8x8xf32>, tensor<f32>
        return %w, %v : tensor<8x8xf32>, tensor<8x8xf32>
      }
    }
    ```

    After:

    ```mlir
    module attributes {nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
      nn.state @weight role = param type = tensor<8x8xf32>
      nn.state @velocity role = momentum type = tensor<8x8xf32> {of = @weight}
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
            lr %hyper momentum %hyper weight_decay %hyper decay = 1.0 : tensor<8x8xf32>, tensor<f32>
        return %w, %v : tensor<8x8xf32>, tensor<8x8xf32>
      }
    }
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def VerifyPrecisionPass : Pass<"shale-verify-precision", "::mlir::ModuleOp"> {
  let summary = "Checks that the types of a step are those of its policy";
  let description = [{
    The exit contract of the precision stage, for a module with `nn.precision`:
    states have the types of the policy; every use of a trained parameter but its
    update is in the param type; updates take gradients of the reduce type;
    metrics are f32; no cast undoes another one.

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
