//===- Passes.td - From a forward pass to a training step -----------------===//
#ifndef SHALE_AUTODIFF_PASSES_TD
#define SHALE_AUTODIFF_PASSES_TD

include "mlir/Pass/PassBase.td"

def AutodiffPass : Pass<"shale-autodiff", "::mlir::ModuleOp"> {
  let summary = "Builds the training step from the forward pass";
  let description = [{
    Replaces `@forward(inputs, states) -> (loss, loss_sum, count)` by

    - `@step(inputs, states, moments, hypers) -> (loss, grad_norm, enable, new
      parameters, new moments)`: forward, backward, and the update of every
      trained parameter, with the gradient clipped to a global norm. Where loss
      or norm is not finite `enable` is false and all state stays as it is.
    - `@evaluate(inputs, states) -> (loss_sum, count)`.

    Declares an `nn.state` for each moment. Gradients are built by the ops
    themselves (`Differentiable`), in reverse order, only along paths from
    trained parameters to the loss; a tied parameter has one gradient, the sum
    over its uses. Frozen parameters get neither gradient nor moments. It is an
    error, with the path, when an op on the way has no gradient or the loss does
    not depend on a trained parameter.

    With `accumulate` = K above 1 a step consumes K micro-batches, one call each:
    `@accumulate_first(inputs, states, accumulators) -> accumulators` begins the
    sums of the gradients, of the loss and of its count, `@accumulate` (K above 2)
    adds to them, and `@step` takes them beside the last micro-batch. Where the
    loss is a sum over a count, gradients are those of the sum, and the update
    divides by the count of the whole step; otherwise the losses of the
    micro-batches are averaged, with a remark. What accumulators hold after
    `@step` means nothing.

    Ops get `nn.phase`; gradient ops take `nn.scope` from the op they come from.
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", /*default=*/"\"adamw\"",
           "adamw or sgd">,
    Option<"accumulate", "accumulate", "int64_t", /*default=*/"1",
           "micro-batches a step">
  ];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def VerifyStepPass : Pass<"shale-verify-step", "::mlir::ModuleOp"> {
  let summary = "Checks that a module holds a whole training step";
  let description = [{
    The exit contract of autodiff: `@step` and `@evaluate` are there and
    `@forward` is not; every op of them has a phase; every state argument of
    `@step` names an `nn.state` of its type; trained parameters and all moments,
    and nothing else, come back as results; the metrics loss, grad_norm and
    enable are results. Where `nn.accumulate` is on the module, the functions that
    accumulate are there and return every accumulator and nothing else.
  }];
}

#endif // SHALE_AUTODIFF_PASSES_TD
