//===- Optimizer.td - Parameter updates -----------------------------------===//
#ifndef SHALE_NN_OPTIMIZER_TD
#define SHALE_NN_OPTIMIZER_TD

include "dialects/nn/NNBase.td"

def NN_OptimizerUpdate : DeclareOpInterfaceMethods<OptimizerUpdateInterface>;

def NN_SumSquaresOp : NN_Op<"sum_squares", [Pure, ElementReductionInterface, NN_Sharded, NN_Cost, NN_Decomposable, NN_Numeric]> {
  let summary = "Sum of the squares of all elements of all operands";
  let description = [{
    The square of the global norm, accumulated over the operands in order.

    Life: made by autodiff from the gradients of all trained parameters; the
    partitioner moves it onto flat shards; lives up to codegen.

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
    consumes several micro-batches; the partitioner turns it into one sum per flat group.

    Constraints:
    - (C1) `into`, if present, has the gradient's type.

    Example: `%2 = nn.accumulate @"w" %0 into %1 : tensor<4x8xf32> : tensor<4x8xf32>`
  }];
  let arguments = (ins FlatSymbolRefAttr:$param, NN_FloatTensor:$gradient, Optional<NN_FloatTensor>:$into);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$param $gradient (`into` $into^ `:` type($into))? attr-dict `:` type($gradient)";
  let hasVerifier = 1;
}

// Common to all updates: each updates one parameter or one flat group. `decay`
// multiplies the weight decay; with `segments` (flat groups only) each segment has
// its own factor and `decay` is ignored. `offset` is the first element of a local
// slice within the group that the segments describe; without it the operands are
// the whole group. If `enable` is false all results equal the operands, bit by
// bit. Parameter, gradient and state each have their own element type; the update
// is computed in f32 or wider and each result is rounded once.

def NN_AdamwOp : NN_Op<"adamw", [Pure, NN_OptimizerUpdate,
    AllTypesMatch<["param", "new_param"]>, AllTypesMatch<["moment1", "moment2", "new_moment1", "new_moment2"]>,
    AllShapesMatch<["param", "grad", "moment1"]>,
    AllTypesMatch<["scale", "lr", "beta1", "beta2", "epsilon", "weight_decay", "bias1", "bias2"]>, TypesMatchWith<"a truth value", "lr", "enable", "::shale::nn::boolScalar($_self)">, NN_Cost, NN_Numeric]> {
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
    With `segments` each segment has its own decay, padding is unchanged, and
    `offset` is the element of the group at which a local slice begins. If
    `enable` is false every result has its operand's bits.

    Life: made by autodiff; the partitioner moves it onto flat shards; becomes a
    cluster of elementwise ops per segment.

    Constraints:
    - (C1) with `segments` the operands are 1-D; segments ascend and do not overlap.
    - (C2) `offset` requires `segments`.

    Example: `%p1, %m1, %v1 = nn.adamw %p, %g, %m, %v enable %e scale %s lr %lr betas %b1, %b2 epsilon %eps weight_decay %wd bias %c1, %c2 decay = 1.000000e+00 : tensor<8xf32>, tensor<f32>`
  }];
  let arguments = (ins NN_FloatTensor:$param, NN_FloatTensor:$grad, NN_FloatTensor:$moment1, NN_FloatTensor:$moment2,
      NN_BoolScalar:$enable, NN_FloatScalar:$scale, NN_FloatScalar:$lr, NN_FloatScalar:$beta1, NN_FloatScalar:$beta2,
      NN_FloatScalar:$epsilon, NN_FloatScalar:$weight_decay, NN_FloatScalar:$bias1, NN_FloatScalar:$bias2,
      Optional<0DTensorOf<[I64]>>:$offset, F64Attr:$decay,
      OptionalAttr<TypedArrayAttrBase<NN_SegmentAttr, "segments">>:$segments);
  let results = (outs NN_FloatTensor:$new_param, NN_FloatTensor:$new_moment1, NN_FloatTensor:$new_moment2);
  let assemblyFormat = [{
    $param `,` $grad `,` $moment1 `,` $moment2 `enable` $enable `scale` $scale `lr` $lr `betas` $beta1 `,` $beta2
    `epsilon` $epsilon `weight_decay` $weight_decay `bias` $bias1 `,` $bias2 (`offset` $offset^ `:` type($offset))? `decay` `=` $decay
    (`segments` `=` $segments^)? attr-dict `:` custom<UpdateTypes>(type($param), type($grad), type($moment1)) `,` type($lr)
  }];
  let hasVerifier = 1;
}

def NN_SgdOp : NN_Op<"sgd", [Pure, NN_OptimizerUpdate,
    AllTypesMatch<["param", "new_param"]>, AllTypesMatch<["velocity", "new_velocity"]>,
    AllShapesMatch<["param", "grad", "velocity"]>,
    AllTypesMatch<["scale", "lr", "momentum", "weight_decay"]>, TypesMatchWith<"a truth value", "lr", "enable", "::shale::nn::boolScalar($_self)">, NN_Cost, NN_Numeric]> {
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
  let arguments = (ins NN_FloatTensor:$param, NN_FloatTensor:$grad, NN_FloatTensor:$velocity,
      NN_BoolScalar:$enable, NN_FloatScalar:$scale, NN_FloatScalar:$lr, NN_FloatScalar:$momentum, NN_FloatScalar:$weight_decay,
      Optional<0DTensorOf<[I64]>>:$offset, F64Attr:$decay,
      OptionalAttr<TypedArrayAttrBase<NN_SegmentAttr, "segments">>:$segments);
  let results = (outs NN_FloatTensor:$new_param, NN_FloatTensor:$new_velocity);
  let assemblyFormat = [{
    $param `,` $grad `,` $velocity `enable` $enable `scale` $scale `lr` $lr `momentum` $momentum
    `weight_decay` $weight_decay (`offset` $offset^ `:` type($offset))? `decay` `=` $decay
    (`segments` `=` $segments^)? attr-dict `:` custom<UpdateTypes>(type($param), type($grad), type($velocity)) `,` type($lr)
  }];
  let hasVerifier = 1;
}

#endif // SHALE_NN_OPTIMIZER_TD
