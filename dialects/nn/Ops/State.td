//===- State.td - State kept between steps --------------------------------===//
#ifndef SHALE_NN_STATE_TD
#define SHALE_NN_STATE_TD

include "dialects/nn/NNBase.td"

def NN_StateOp : NN_Op<"state", [Symbol]> {
  let summary = "Declares a piece of state: a parameter, a buffer, an optimizer moment";
  let description = [{
    State is referred to by symbol from the arguments and results of the
    module's functions (`nn.state = @name`). A parameter's symbol is PyTorch's
    name. `init` is a reference, `#nn.file`, or `#nn.fill`; only values that an
    exporter folded, some kilobytes, are given as dense elements. Without `init`
    the value starts at zero. `names` are further names of a tied parameter.
    `unit` is the unit that gathers it, `trained = false` marks a frozen parameter,
    `factors` are those of its update, `of` the parameter that a moment or a
    gradient accumulator belongs to, or the residual that an accumulator becomes if the step is not left out. A moment is the optimizer's state; `slot` is
    its name in the optimizer's description and in checkpoints. An accumulator holds a sum over the
    micro-batches of a step; its value between steps is meaningless. A running state is a buffer
    that every micro-batch changes, and no optimizer: a statistic of batch normalization, or a buffer whose new value is a result of
    `@forward` with its `nn.state`. A divided state is
    a parameter whose parts are states of their own (`nn.part`): it has the name, shape and initial value, and no function reads it.
    A residual is what the rank has not sent yet of its gradients, because they are rounded (`dist.quantization_error`): each rank has a
    value of its own, of the state's type, which begins with zero.

    Life: made by import (parameters, buffers) and autodiff (moments; a buffer that `nn.running_statistic` reads, or whose new value `@forward` returns, becomes running); the
    annotate passes set unit, trained and factors; lives up to codegen, which
    writes the program's tables from it.

    Constraints:
    - (C1) role is param, buffer, running, divided, moment, grad_accumulator, residual or loss_scale.
    - (C2) init is `#nn.file`, `#nn.fill` or dense elements; a file's length is that of the state's number of elements, of the
      file's type if it is given, else of the state's type, or twice that for a 16-bit float type whose file holds f32; only
      a state of floats has a file of another type; only a 2-D state is transposed; dense elements have the state's shape,
      are floats for a state of floats, and have at most 4 MiB.
    - (C3) `of` is present for moments, optional for grad_accumulator, and absent for other roles.
    - (C4) a moment, and nothing else, has a slot: letters, digits and `_`, not `param` or `loss_scale`.
    - (C5) other attributes are those of a dialect.

    Example: `nn.state @"h.0.ln.weight" role = param type = tensor<8xf32> {init = #nn.fill<1.0 : f64>}`
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, NN_RoleAttr:$role, OptionalAttr<StrAttr>:$slot,
      TypeAttrOf<NN_Tensor>:$type, OptionalAttr<AnyAttr>:$init,
      OptionalAttr<StrArrayAttr>:$names, OptionalAttr<FlatSymbolRefAttr>:$of,
      OptionalAttr<StrAttr>:$unit, OptionalAttr<BoolAttr>:$trained,
      OptionalAttr<NN_UpdateFactorsAttr>:$factors);
  let assemblyFormat = "$sym_name `role` `=` custom<StateRole>($role, $slot) `type` `=` $type attr-dict";
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::shale::nn::Role":$role, "::mlir::Type":$type), [{
    $_state.addAttribute(getSymNameAttrName($_state.name), $_builder.getStringAttr(name));
    $_state.addAttribute(getRoleAttrName($_state.name), RoleAttr::get($_builder.getContext(), role));
    $_state.addAttribute(getTypeAttrName($_state.name), ::mlir::TypeAttr::get(type));
  }]>];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType();
    /// Whether the state is a parameter that the optimizer changes.
    bool isTrainedParameter();
  }];
}

#endif // SHALE_NN_STATE_TD
