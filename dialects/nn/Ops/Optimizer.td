//===- Optimizer.td - Parameter updates -----------------------------------===//
#ifndef SHALE_NN_OPTIMIZER_TD
#define SHALE_NN_OPTIMIZER_TD

include "dialects/nn/NNBase.td"

def NN_SumSquaresOp : NN_Op<"sum_squares", [Pure, ElementReductionInterface, NN_Sharded, NN_Cost, NN_Decomposable, NN_Numeric]> {
  let summary = "Sum of the squares of all elements of all operands";
  let description = [{
    The square of the global norm, accumulated over the operands in order.

    Life: made by autodiff from the gradients of all trained parameters; moved
    onto flat groups by `shale-materialize-units`; lives up to codegen.

    Constraints:
    - (C1) at least one operand; all have the result's element type, or a 16-bit float type if that is f32.

    Example: `%2 = nn.sum_squares %0, %1 : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<f32>`
  }];
  let arguments = (ins Variadic<NN_FloatTensor>:$inputs);
  let results = (outs NN_FloatScalar:$result);
  let assemblyFormat = "$inputs attr-dict `:` functional-type($inputs, $result)";
  let hasVerifier = 1;
}

def NN_AccumulateOp : NN_Op<"accumulate", [Pure, NN_Sharded, NN_Numeric, AllTypesMatch<["gradient", "result"]>]> {
  let summary = "Adds a micro-batch's gradient to the sum of the earlier ones";
  let description = [{
    The gradient of `param` in the step so far: that of this micro-batch plus
    `into`, the sum of the earlier ones. Without `into` it starts the sum, so that
    nothing needs to be cleared.

    Life: made by autodiff, one per trained parameter and function, when a step
    consumes several micro-batches; `shale-materialize-units` makes it one sum per flat group.

    Constraints:
    - (C1) `into`, if present, has the gradient's type.

    Example: `%2 = nn.accumulate @"w" %0 into %1 : tensor<4x8xf32> : tensor<4x8xf32>`
  }];
  let arguments = (ins FlatSymbolRefAttr:$param, NN_FloatTensor:$gradient, Optional<NN_FloatTensor>:$into);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$param $gradient (`into` $into^ `:` type($into))? attr-dict `:` type($gradient)";
  let hasVerifier = 1;
}

// An optimizer: updates one parameter or one flat group. `states` are the operands of its state, `hypers` the scalars of
// its formula (dialects/nn/Optimizers); operands are in the order param, grad, states, enable, scale, hypers, offset.
// `hyperFormat` is the assembly of the hypers, `elementFlops` the operations per element.
class NN_UpdateOp<string mnemonic, list<string> states, list<string> hypers, string hyperFormat, int elementFlops>
    : NN_Op<mnemonic,
        [Pure, DeclareOpInterfaceMethods<OptimizerUpdateInterface, ["emitUpdate"]>, NN_Cost, NN_Numeric,
         AllTypesMatch<["param", "new_param"]>,
         AllTypesMatch<!listconcat(states, !foreach(state, states, "new_" # state))>,
         AllShapesMatch<["param", "grad", !head(states)]>,
         AllTypesMatch<!listconcat(["scale"], hypers)>,
         TypesMatchWith<"a truth value", "scale", "enable", "::shale::nn::boolScalar($_self)">]> {
  let arguments = !con(
      (ins NN_FloatTensor:$param, NN_FloatTensor:$grad),
      !dag(ins, !foreach(state, states, NN_FloatTensor), states),
      (ins NN_BoolScalar:$enable, NN_FloatScalar:$scale),
      !dag(ins, !foreach(hyper, hypers, NN_FloatScalar), hypers),
      (ins Optional<0DTensorOf<[I64]>>:$offset, F64Attr:$decay,
       OptionalAttr<TypedArrayAttrBase<NN_UpdateRangeAttr, "segments">>:$segments));
  let results = !con(
      (outs NN_FloatTensor:$new_param),
      !dag(outs, !foreach(state, states, NN_FloatTensor), !foreach(state, states, "new_" # state)));
  let assemblyFormat = "$param `,` $grad `,` " # !interleave(!foreach(state, states, "$" # state), " `,` ") #
      " `enable` $enable `scale` $scale " # hyperFormat #
      " (`offset` $offset^ `:` type($offset))? `decay` `=` $decay (`segments` `=` $segments^)? attr-dict `:` " #
      "custom<UpdateTypes>(type($param), type($grad), type($" # !head(states) # ")) `,` type($scale)";
  let hasVerifier = 1;
  let extraClassDeclaration = "static const ::shale::nn::Optimizer &getOptimizer();";
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::verify() {
      return ::shale::nn::verifySegments(*this, getParam().getType(), getSegmentsAttr(), getOffset());
    }
    // The update is computed in f32, whatever is stored.
    ::shale::Numeric $cppClass::getOperandNumeric(unsigned number) {
      return number <= getNumResults() ? ::shale::Numeric::Any : ::shale::Numeric::Full;
    }
    ::shale::Numeric $cppClass::getResultNumeric(unsigned) { return ::shale::Numeric::Any; }
    int64_t $cppClass::getFlops() { return }] # !cast<string>(elementFlops) # [{ * ::llvm::cast<::mlir::RankedTensorType>(getParam().getType()).getNumElements(); }
  }];
}

def NN_AdamwOp : NN_UpdateOp<"adamw", ["moment1", "moment2"],
    ["lr", "beta1", "beta2", "epsilon", "weight_decay", "bias1", "bias2"],
    "`lr` $lr `betas` $beta1 `,` $beta2 `epsilon` $epsilon `weight_decay` $weight_decay `bias` $bias1 `,` $bias2", 15> {
  let summary = "AdamW update of a parameter or a flat group";
  let description = [{
    PyTorch's torch.optim.AdamW (Loshchilov and Hutter, arXiv 1711.05101), with
    g = grad * scale (scale is the clipping factor):

    ```
    param      = param * (1 - lr * weight_decay * decay)
    moment1    = moment1 + (g - moment1) * (1 - beta1)
    moment2    = moment2 * beta2 + g * g * (1 - beta2)
    param      = param - (lr / bias1) * moment1 / (sqrt(moment2) / sqrt(bias2) + epsilon)
    ```

    with bias1 = 1 - beta1^t, bias2 = 1 - beta2^t for the step number t from 1.

    Common to all updates: an op updates one parameter or one flat group.
    `decay` multiplies the weight decay; with `segments` (flat groups only) each
    segment has its own factor instead, and padding is unchanged. `offset` is the
    element of the group at which a local slice begins; without it the operands
    are the whole group. If `enable` is false every result has its operand's
    bits. Parameter, gradient and state each have their own element type; the
    update is computed in f32 or wider and each result is rounded once.

    Life: made by autodiff; moved onto flat groups by `shale-materialize-units`;
    lives up to codegen.

    Constraints:
    - (C1) with `segments` the operands are 1-D; segments ascend and do not overlap.
    - (C2) `offset` requires `segments`.

    Example: `%p1, %m1, %v1 = nn.adamw %p, %g, %m, %v enable %e scale %s lr %lr betas %b1, %b2 epsilon %eps weight_decay %wd bias %c1, %c2 decay = 1.000000e+00 : tensor<8xf32>, tensor<f32>`
  }];
}

def NN_SgdOp : NN_UpdateOp<"sgd", ["velocity"], ["lr", "momentum", "weight_decay"],
    "`lr` $lr `momentum` $momentum `weight_decay` $weight_decay", 7> {
  let summary = "SGD update with momentum of a parameter or a flat group";
  let description = [{
    PyTorch's torch.optim.SGD without dampening or Nesterov, with g = grad * scale:

    ```
    g        = g + param * weight_decay * decay
    velocity = velocity * momentum + g
    param    = param - lr * velocity
    ```

    `segments`, `offset` and `enable` are as in `nn.adamw`. A velocity that
    begins at zero gives PyTorch's first step.

    Life: as `nn.adamw`.

    Constraints:
    - (C1) with `segments` the operands are 1-D; segments ascend and do not overlap.
    - (C2) `offset` requires `segments`.

    Example: `%p1, %v1 = nn.sgd %p, %g, %v enable %e scale %s lr %lr momentum %mu weight_decay %wd decay = 1.000000e+00 : tensor<8xf32>, tensor<f32>`
  }];
}

def NN_LionOp : NN_UpdateOp<"lion", ["momentum"], ["lr", "beta1", "beta2", "weight_decay"],
    "`lr` $lr `betas` $beta1 `,` $beta2 `weight_decay` $weight_decay", 12> {
  let summary = "Lion update of a parameter or a flat group";
  let description = [{
    Lion (Chen and others, arXiv 2302.06675), with g = grad * scale:

    ```
    param    = param * (1 - lr * weight_decay * decay)
    param    = param - lr * sign(momentum * beta1 + g * (1 - beta1))
    momentum = momentum * beta2 + g * (1 - beta2)
    ```

    The sign of 0 is 0. `segments`, `offset` and `enable` are as in `nn.adamw`.

    Life: as `nn.adamw`.

    Constraints:
    - (C1) with `segments` the operands are 1-D; segments ascend and do not overlap.
    - (C2) `offset` requires `segments`.

    Example: `%p1, %m1 = nn.lion %p, %g, %m enable %e scale %s lr %lr betas %b1, %b2 weight_decay %wd decay = 1.000000e+00 : tensor<8xf32>, tensor<f32>`
  }];
}

#endif // SHALE_NN_OPTIMIZER_TD
