//===- Passes.td - Passes of the autodiff stage ---------------------------===//
#ifndef SHALE_AUTODIFF_PASSES_TD
#define SHALE_AUTODIFF_PASSES_TD

include "lib/Options/Options.td"
include "mlir/Pass/PassBase.td"

def AutodiffPass : Pass<"shale-autodiff", "::mlir::ModuleOp"> {
  let summary = "Builds the training step from the forward pass";
  let description = [{
    Replaces `@forward(inputs, states) -> (loss, loss_sum, count)` by

    - `@step(inputs, states, moments, hypers) -> (loss, grad_norm, enable, new
      parameters, new moments)`: forward, backward, and the update of every
      trained parameter, with the gradient clipped to a global norm. If the loss
      or the norm is not finite, or the norm is above the hyperparameter
      `norm_limit`, `enable` is false and parameters and moments
      keep their values. On a target that runs ahead, `enable` is also false if
      the hyperparameter `previous_enable` is 0, unless the loss is scaled.
    - `@evaluate(inputs, states) -> (loss_sum, count)`.

    Declares an `nn.state` for each moment. Each op builds its own gradient
    (`DifferentiableOpInterface`). Gradients are built in reverse order, and only along
    paths from trained parameters to the loss; a tied parameter has one gradient,
    the sum over its uses. Frozen parameters get neither gradient nor moments. An
    op on such a path without a gradient is an error, and so is a trained
    parameter on which the loss does not depend; the error names the path.

    A model's file may compute the gradients: results of `@forward` after the
    first three, with `nn.gradient_of`. They are used as they are, one for each
    trained parameter, and none is derived. The ops that the loss depends on are then
    forward; all other ops are backward, and are moved behind them. The gradients must be those of the
    loss. If the loss is a sum divided by a count, each gradient is multiplied by the divisor before
    micro-batches are added up, which gives the gradients of the sum. The loss is not scaled for f16.

    A result of `@forward` after the first three that has the `nn.state` of a buffer is the buffer's new
    value. The buffer becomes running: `@step` and the functions of other micro-batches return the new value.

    With `accumulate` = K above 1 a step consumes K micro-batches, one call each:
    `@accumulate_first(inputs, states, accumulators) -> accumulators` starts the
    sums of the gradients, of the loss and of its count, `@accumulate` (K above 2)
    adds to them, and `@step` takes them along with the last micro-batch. If the
    loss is a sum divided by a count, the gradients are those of the sum, and the
    update divides by the count of the whole step. Otherwise the losses of the
    micro-batches are averaged, with a remark. The contents of the accumulators
    after `@step` are unspecified.

    If the module has `nn.optimizer`, because the model's file has an optimizer, that
    optimizer is used and the option is ignored.

    Every op gets `nn.phase`; a gradient op takes `nn.scope` from its forward op.

    The example is a classifier of one layer. In `@step` the arguments `%arg0` and
    `%arg1` are the inputs, `%arg2` is the weight and `%arg3` its momentum; the
    hyperparameters follow. `...` stands for the signatures, the clipping of the
    gradient and most of `@evaluate`, which comes last.

    Before (with `optimizer=sgd`):

    ```mlir
    nn.state @weight role = param type = tensor<4x5xf32>
    func.func @forward(%x: tensor<8x4xf32> {nn.role = #nn.role<input>, nn.name = "x"},
                       %labels: tensor<8xi64> {nn.role = #nn.role<label>, nn.name = "labels"},
                       %weight: tensor<4x5xf32> {nn.state = @weight}) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
      %logits = nn.matmul %x, %weight {nn.scope = "head"} : (tensor<8x4xf32>, tensor<4x5xf32>) -> tensor<8x5xf32>
      %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<8x5xf32>, tensor<8xi64>
      %loss = nn.div %sum, %count : tensor<f32>
      return %loss, %sum, %count : tensor<f32>, tensor<f32>, tensor<f32>
    }
    ```

    After:

    ```mlir
    module attributes {nn.optimizer = "sgd"} {
      nn.state @weight role = param type = tensor<4x5xf32>
      nn.state @weight.momentum role = moment("momentum") type = tensor<4x5xf32> {of = @weight}
      ...
        %0 = nn.matmul %arg0, %arg2 {nn.phase = #nn.phase<forward>, nn.scope = "head"} : (tensor<8x4xf32>, tensor<4x5xf32>) -> tensor<8x5xf32>
        %loss_sum, %count, %lse = nn.cross_entropy %0, %arg1 ignore_index = -100 {nn.phase = #nn.phase<forward>} : tensor<8x5xf32>, tensor<8xi64>
        %1 = nn.div %loss_sum, %count {nn.phase = #nn.phase<forward>} : tensor<f32>
        %2 = nn.constant dense<1.000000e+00> : tensor<f32> {nn.phase = #nn.phase<backward>}
        %3 = nn.div %2, %count {nn.phase = #nn.phase<backward>} : tensor<f32>
        %4 = nn.cross_entropy_grad %0, %arg1, %lse, %3 ignore_index = -100 {nn.phase = #nn.phase<backward>} : tensor<8x5xf32>, tensor<8xi64>
        %5 = nn.matmul %arg0, %4 transpose_lhs {nn.phase = #nn.phase<backward>, nn.scope = "head"} : (tensor<8x4xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
        %6 = nn.sum_squares %5 {nn.phase = #nn.phase<update>} : (tensor<4x5xf32>) -> tensor<f32>
        %7 = nn.sqrt %6 {nn.phase = #nn.phase<update>} : tensor<f32>
        ...
        %new_param, %new_velocity = nn.sgd %arg2, %5, %arg3 enable %24 scale %15 lr %arg4 momentum %arg5 weight_decay %arg6 {nn.phase = #nn.phase<update>} : tensor<4x5xf32>, tensor<f32>
        return %1, %7, %24, %new_param, %new_velocity : tensor<f32>, tensor<f32>, tensor<i1>, tensor<4x5xf32>, tensor<4x5xf32>
      }
      ...
        return %loss_sum, %count : tensor<f32>, tensor<f32>
      }
    }
    ```

    The same with two micro-batches per step. The example shows the end of
    `@accumulate_first`, then a part of `@step`, where `%arg3` to `%arg5` are the
    accumulators.

    Before (with `optimizer=sgd accumulate=2`):

    ```mlir
    nn.state @weight role = param type = tensor<4x5xf32>
    func.func @forward(%x: tensor<8x4xf32> {nn.role = #nn.role<input>, nn.name = "x"},
                       %labels: tensor<8xi64> {nn.role = #nn.role<label>, nn.name = "labels"},
                       %weight: tensor<4x5xf32> {nn.state = @weight}) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
      %logits = nn.matmul %x, %weight : (tensor<8x4xf32>, tensor<4x5xf32>) -> tensor<8x5xf32>
      %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<8x5xf32>, tensor<8xi64>
      %loss = nn.div %sum, %count : tensor<f32>
      return %loss, %sum, %count : tensor<f32>, tensor<f32>, tensor<f32>
    }
    ```

    After:

    ```mlir
    module attributes {nn.accumulate = 2 : i64, nn.optimizer = "sgd"} {
      nn.state @weight role = param type = tensor<4x5xf32>
      nn.state @weight.grad_accumulator role = grad_accumulator type = tensor<4x5xf32> {of = @weight}
      nn.state @loss_sum.accumulator role = grad_accumulator type = tensor<f32>
      nn.state @count.accumulator role = grad_accumulator type = tensor<f32>
      ...
        %3 = nn.matmul %arg0, %2 transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<8x4xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
        %4 = nn.accumulate @weight %3 {nn.phase = #nn.phase<backward>} : tensor<4x5xf32>
        return %4, %loss_sum, %count : tensor<4x5xf32>, tensor<f32>, tensor<f32>
      }
      ...
        %4 = nn.accumulate @weight %3 into %arg3 : tensor<4x5xf32> {nn.phase = #nn.phase<backward>} : tensor<4x5xf32>
        %5 = nn.add %arg4, %loss_sum {nn.phase = #nn.phase<update>} : tensor<f32>
        %6 = nn.add %arg5, %count {nn.phase = #nn.phase<update>} : tensor<f32>
        %7 = nn.constant dense<0.000000e+00> : tensor<f32> {nn.phase = #nn.phase<update>}
        %8 = nn.compare gt %6, %7 {nn.phase = #nn.phase<update>} : tensor<f32> -> tensor<i1>
        %9 = nn.constant dense<1.000000e+00> : tensor<f32> {nn.phase = #nn.phase<update>}
        %10 = nn.select %8, %6, %9 {nn.phase = #nn.phase<update>} : tensor<i1>, tensor<f32>
        %11 = nn.div %5, %10 {nn.phase = #nn.phase<update>} : tensor<f32>
      ...
    ```

    The gradient is computed by the file. The example shows the part of `@step`
    before the clipping.

    Before (with `optimizer=sgd`):

    ```mlir
    nn.state @w role = param type = tensor<4xf32>
    func.func @forward(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<4xf32> {nn.state = @w})
        -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32> {nn.gradient_of = @w}) {
      %products = nn.mul %x, %w : tensor<4xf32>
      %loss = nn.reduce sum %products dims = [0] : tensor<4xf32> -> tensor<f32>
      %one = nn.constant dense<1.0> : tensor<f32>
      %gradient = nn.abs %x : tensor<4xf32>
      return %loss, %loss, %one, %gradient : tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32>
    }
    ```

    After:

    ```mlir
      ...
        %0 = nn.mul %arg0, %arg1 {nn.phase = #nn.phase<forward>} : tensor<4xf32>
        %1 = nn.reduce sum %0 dims = [0] {nn.phase = #nn.phase<forward>} : tensor<4xf32> -> tensor<f32>
        %2 = nn.abs %arg0 {nn.phase = #nn.phase<backward>} : tensor<4xf32>
        %3 = nn.sum_squares %2 {nn.phase = #nn.phase<update>} : (tensor<4xf32>) -> tensor<f32>
      ...
    ```
  }];
  let options = FlagsOf<"shale-autodiff">.options;
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def VerifyStepPass : Pass<"shale-verify-step", "::mlir::ModuleOp"> {
  let summary = "Checks that a module holds a whole training step";
  let description = [{
    The exit contract of autodiff: `@step` and `@evaluate` exist and `@forward`
    does not; all their ops have a phase; every state argument of `@step` names
    an `nn.state` of its type; the states that are returned are exactly the
    trained parameters and all moments; the metrics loss, grad_norm and enable
    are results. If the module has `nn.accumulate`, the functions that accumulate
    exist and return exactly the accumulators.

    Refused:

    ```mlir
    nn.state @weight role = param type = tensor<f32>
    func.func @step(%weight: tensor<f32> {nn.state = @weight}, %enable: tensor<i1> {nn.role = #nn.role<input>})
        -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.name = "grad_norm"}, tensor<i1> {nn.name = "enable"}) {
      return %weight, %weight, %enable : tensor<f32>, tensor<f32>, tensor<i1>
    }
    ```

    with "is to be updated, but @step does not return it".
  }];
}

#endif // SHALE_AUTODIFF_PASSES_TD
