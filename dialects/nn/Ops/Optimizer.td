//===- Optimizer.td - Parameter updates -----------------------------------===//
#ifndef SHALE_NN_OPTIMIZER_TD
#define SHALE_NN_OPTIMIZER_TD

include "dialects/nn/NNBase.td"
include "dialects/nn/RoundedUpdate.td"

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

def NN_AccumulateOp : NN_Op<"accumulate", [Pure, GradientAccumulationInterface, NN_Sharded, NN_Numeric, AllTypesMatch<["gradient", "result"]>]> {
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

// The base class of all updates. `states` names the operands of the state, `scalars` those of the formula (dialects/nn/Optimizers).
// Each scalar is printed after its name. The operands are in the order param, grad, states, enable, scale, scalars, rounding (seed and
// step), offset. `types` is the assembly of the types of param, grad and states, `elementFlops` the operations per element, `more` the
// op's other traits.
class NN_UpdateBase<string mnemonic, list<string> states, list<string> scalars, string types, int elementFlops,
                    list<Trait> more, TypeConstraint stateType = NN_FloatTensor>
    : NN_Op<mnemonic,
        [Pure, NN_Cost, NN_Numeric, AttrSizedOperandSegments, RoundedUpdateInterface,
         AllTypesMatch<["param", "new_param"]>,
         AllTypesMatch<!listconcat(["scale"], scalars)>,
         TypesMatchWith<"a truth value", "scale", "enable", "::shale::nn::boolScalar($_self)">] # more> {
  // Parts of the description: what the op computes, its life, its constraints beside those of its class, an example.
  string text = "";
  string life = "as `nn.adamw`";
  string classConstraints = "";
  string constraints = "";
  string example = "";
  let description = text # "\n    Life: " # life # ".\n\n    Constraints:" # classConstraints # constraints # "\n\n    Example: `" # example # "`\n  ";
  let arguments = !con(
      (ins NN_FloatTensor:$param, NN_FloatTensor:$grad),
      !dag(ins, !foreach(state, states, stateType), states),
      (ins NN_BoolScalar:$enable, NN_FloatScalar:$scale),
      !dag(ins, !foreach(scalar, scalars, NN_FloatScalar), scalars),
      (ins Variadic<0DTensorOf<[I64]>>:$rounding, Optional<0DTensorOf<[I64]>>:$offset,
       OptionalAttr<NN_UpdateFactorsAttr>:$factors, OptionalAttr<DenseI64ArrayAttr>:$numbers,
       OptionalAttr<TypedArrayAttrBase<NN_UpdateRangeAttr, "segments">>:$segments));
  let results = !con(
      (outs NN_FloatTensor:$new_param),
      !dag(outs, !foreach(state, states, stateType), !foreach(state, states, "new_" # state)));
  let assemblyFormat = !interleave(!foreach(value, !listconcat(["param", "grad"], states), "$" # value), " `,` ") #
      " `enable` $enable `scale` $scale " # !interleave(!foreach(scalar, scalars, "`" # scalar # "` $" # scalar), " ") #
      " (`rounded` `by` $rounding^ `:` type($rounding))? (`offset` $offset^ `:` type($offset))? (`factors` $factors^)? (`segments` `=` $segments^)? attr-dict `:` " #
      types # " `,` type($scale)";
  code definition = [{
    // The update is computed in f32, whatever is stored.
    ::shale::Numeric $cppClass::getOperandNumeric(unsigned number) {
      return number <= (*this)->getNumResults() ? ::shale::Numeric::Any : ::shale::Numeric::Full;
    }
    ::shale::Numeric $cppClass::getResultNumeric(unsigned) { return ::shale::Numeric::Any; }
    std::optional<unsigned> $cppClass::getFactorOn(unsigned number) {
      static constexpr std::optional<unsigned> factors[] = {}] # !interleave(!listconcat(!foreach(scalar, scalars, NN_FactorOn<scalar>.factor), ["std::nullopt"]), ", ") # [{};
      unsigned place = number - *getHyperNumbers().begin();
      return place < std::size(factors) ? factors[place] : std::nullopt;
    }
    ::llvm::iota_range<unsigned> $cppClass::getHyperNumbers() {
      unsigned after = getRounding().size() + bool(getOffset());
      return ::llvm::seq<unsigned>(3 + (*this)->getNumResults(), getNumOperands() - after);
    }
    int64_t $cppClass::getFlops() { return }] # !cast<string>(elementFlops) # [{ * ::llvm::cast<::mlir::RankedTensorType>(getParam().getType()).getNumElements(); }
  }];
  let extraClassDefinition = definition;
}

// Constraints of two kinds of updates. The traits verify them (Optimizer.h).
class NN_UpdateKind<string name, string text> : NativeOpTrait<name> {
  let cppNamespace = "::shale::nn";
  string constraints = text;
}
def NN_UpdatesRanges : NN_UpdateKind<"UpdatesRanges", [{
    - (C1) with `segments` the operands are 1-D; segments ascend and do not overlap.
    - (C2) `offset` requires `segments`, and `factors` exclude them.}]>;
def NN_UpdatesOneParameter : NN_UpdateKind<"UpdatesOneParameter", [{
    - (C1) there is no `offset` and there are no `segments`.}]>;

// The constraints of `rounding`, for the descriptions of ops whose class has two others. All updates verify them.
class NN_RoundingConstraints {
  string text = [{
    - (C3) `rounding` has two operands or none, and requires a parameter of bf16.
    - (C4) `numbers` requires `rounding`, and has one number per segment, or one: multiples of 4 from 0 to 2^48.
    - (C5) with `rounding`, segments begin at multiples of 4.}];
}

// An optimizer: updates one parameter or one flat group. Its states have one type.
class NN_AnyUpdateOp<string mnemonic, list<string> states, list<string> scalars, int elementFlops, NN_UpdateKind kind,
                     list<Trait> more, TypeConstraint stateType = NN_FloatTensor>
    : NN_UpdateBase<mnemonic, states, scalars, "custom<UpdateTypes>(type($param), type($grad), type($" # !head(states) # "))",
        elementFlops, [AllTypesMatch<!listconcat(states, !foreach(state, states, "new_" # state))>, kind] # more, stateType> {
  let classConstraints = kind.constraints;
  let extraClassDeclaration = "static const ::shale::nn::Optimizer &getOptimizer();";
}

// An elementwise optimizer: the op updates flat groups and slices of them, too.
class NN_UpdateOp<string mnemonic, list<string> states, list<string> scalars, int elementFlops>
    : NN_AnyUpdateOp<mnemonic, states, scalars, elementFlops, NN_UpdatesRanges,
        [DeclareOpInterfaceMethods<OptimizerUpdateInterface, ["getHyperNumbers"]>, DeclareOpInterfaceMethods<ElementwiseUpdateInterface>,
         AllShapesMatch<["param", "grad", !head(states)]>]>;

def NN_AdamwOp : NN_UpdateOp<"adamw", ["moment1", "moment2"],
    ["lr", "beta1", "beta2", "epsilon", "weight_decay", "bias1", "bias2"], 15> {
  let summary = "AdamW update of a parameter or a flat group";
  let text = [{
    PyTorch's torch.optim.AdamW (Loshchilov and Hutter, arXiv 1711.05101), with
    g = grad * scale (scale is the clipping factor):

    ```
    param      = param * (1 - lr * weight_decay)
    moment1    = moment1 + (g - moment1) * (1 - beta1)
    moment2    = moment2 * beta2 + g * g * (1 - beta2)
    param      = param - (lr / bias1) * moment1 / (sqrt(moment2) / sqrt(bias2) + epsilon)
    ```

    with bias1 = 1 - beta1^t, bias2 = 1 - beta2^t for the step number t from 1.

    Common to all updates: an op updates one parameter or one flat group.
    `factors` multiply scalars of the formula: `decay` those of weight decay, `lr_scale` the
    learning rate. With `segments` (flat groups only) each segment has its own
    factors instead, and padding is unchanged. `offset` is the
    element of the group at which a local slice begins; without it the operands
    are the whole group. If `enable` is false every result has its operand's
    bits. Parameter, gradient and state each have their own element type; the
    update is computed in f32 or wider and each result is rounded once, to nearest.

    With `rounding`, which is a seed and a step, a parameter of bf16 is rounded stochastically: of the two
    bf16 numbers around the f32 value, the one further from 0 is taken with a probability that is the
    distance from the other over that between them, a multiple of 2^-16. NaN and
    magnitudes above the largest finite bf16 are rounded to nearest. The f32's bits below
    those of a bf16 are added to the upper 16 bits of a random word; a carry rounds away from 0.
    The word of the element with number n is word n mod 4 of Philox-4x32-10 (see
    `nn.dropout`) with the key (seed low, seed high) and the counter (n / 4 low,
    n / 4 high | 65535 << 16, step low, step high). A parameter's elements are numbered
    from `numbers` on, those of a segment from its own number on. The bits therefore do not
    depend on how ranks share the group, nor on what else is in it. The high word of `step` is the
    piece of the parameter that a rank has if tensor axes split it.
  }];
  let life = [{made by autodiff; moved onto flat groups by `shale-materialize-units`;
    lives up to codegen}];
  let constraints = NN_RoundingConstraints<>.text;
  let example = "%p1, %m1, %v1 = nn.adamw %p, %g, %m, %v enable %e scale %s lr %lr beta1 %b1 beta2 %b2 epsilon %eps weight_decay %wd bias1 %c1 bias2 %c2 : tensor<8xf32>, tensor<f32>";
}

def NN_SgdOp : NN_UpdateOp<"sgd", ["velocity"], ["lr", "momentum", "weight_decay"], 7> {
  let summary = "SGD update with momentum of a parameter or a flat group";
  let text = [{
    PyTorch's torch.optim.SGD without dampening or Nesterov, with g = grad * scale:

    ```
    g        = g + param * weight_decay
    velocity = velocity * momentum + g
    param    = param - lr * velocity
    ```

    `segments`, `offset` and `enable` are as in `nn.adamw`. A velocity that
    begins at zero gives PyTorch's first step.
  }];
  let example = "%p1, %v1 = nn.sgd %p, %g, %v enable %e scale %s lr %lr momentum %mu weight_decay %wd : tensor<8xf32>, tensor<f32>";
}

def NN_LionOp : NN_UpdateOp<"lion", ["momentum"], ["lr", "beta1", "beta2", "weight_decay"], 12> {
  let summary = "Lion update of a parameter or a flat group";
  let text = [{
    Lion (Chen and others, arXiv 2302.06675), with g = grad * scale:

    ```
    param    = param * (1 - lr * weight_decay)
    param    = param - lr * sign(momentum * beta1 + g * (1 - beta1))
    momentum = momentum * beta2 + g * (1 - beta2)
    ```

    The sign of 0 is 0. `segments`, `offset` and `enable` are as in `nn.adamw`.
  }];
  let example = "%p1, %m1 = nn.lion %p, %g, %m enable %e scale %s lr %lr beta1 %b1 beta2 %b2 weight_decay %wd : tensor<8xf32>, tensor<f32>";
}

def NN_AdamOp : NN_UpdateOp<"adam", ["moment1", "moment2"],
    ["lr", "beta1", "beta2", "epsilon", "weight_decay", "decoupled_decay", "shrink", "bias1", "bias2"], 20> {
  let summary = "Adam update of a parameter or a flat group, epsilon outside of the bias correction";
  let text = [{
    The Adam of ONNX (`ai.onnx.preview.training`) and of ONNX Runtime's and Transformers' AdamW: the last form of section 2 of
    Kingma and Ba, arXiv 1412.6980. With g = grad * scale:

    ```
    g          = g + param * weight_decay
    moment1    = moment1 * beta1 + g * (1 - beta1)
    moment2    = moment2 * beta2 + g * g * (1 - beta2)
    param      = param - lr * sqrt(bias2) / bias1 * moment1 / (sqrt(moment2) + epsilon)
    param      = param * (1 - lr * decoupled_decay - shrink)
    ```

    `bias1` and `bias2` are as in `nn.adamw`; 1 leaves the correction out. `segments`, `offset` and `enable` are as in `nn.adamw`.
  }];
  let example = "%p1, %m1, %v1 = nn.adam %p, %g, %m, %v enable %e scale %s lr %lr beta1 %b1 beta2 %b2 epsilon %eps weight_decay %l2 decoupled_decay %wd shrink %n bias1 %c1 bias2 %c2 : tensor<8xf32>, tensor<f32>";
}

def NN_AdagradOp : NN_UpdateOp<"adagrad", ["sum"], ["lr", "lr_decay", "epsilon", "weight_decay", "rate"], 10> {
  let summary = "Adagrad update of a parameter or a flat group";
  let text = [{
    PyTorch's torch.optim.Adagrad and ONNX's Adagrad (Duchi and others, JMLR 12, 2011), with g = grad * scale:

    ```
    g     = g + param * weight_decay
    sum   = sum + g * g
    param = param - lr * rate * g / (sqrt(sum) + epsilon)
    ```

    with rate = 1 / (1 + t * lr_decay) for the number t of updates before. `segments`, `offset` and `enable` are as in `nn.adamw`.
  }];
  let example = "%p1, %h1 = nn.adagrad %p, %g, %h enable %e scale %s lr %lr lr_decay %d epsilon %eps weight_decay %wd rate %r : tensor<8xf32>, tensor<f32>";
}

def NN_MomentumOp : NN_UpdateOp<"momentum", ["velocity"],
    ["lr", "momentum", "gradient_weight", "nesterov", "weight_decay", "weight"], 13> {
  let summary = "Momentum update of a parameter or a flat group";
  let text = [{
    ONNX's Momentum, which is PyTorch's torch.optim.SGD with dampening 1 - gradient_weight. With g = grad * scale:

    ```
    g        = g + param * weight_decay
    velocity = velocity * momentum + g * weight
    param    = param - lr * (g + velocity * momentum)   if nesterov is 1
    param    = param - lr * velocity                    if nesterov is 0
    ```

    `weight` is 1 in the first update and gradient_weight later. `segments`, `offset` and `enable` are as in `nn.adamw`.
  }];
  let example = "%p1, %v1 = nn.momentum %p, %g, %v enable %e scale %s lr %lr momentum %mu gradient_weight %b nesterov %n weight_decay %wd weight %w : tensor<8xf32>, tensor<f32>";
}

// Updates a block of elements that follow one another (Optimizer::stateBlock) from this block and its state alone. Tensor axes may
// then split the parameter between blocks.
def NN_NeedsBlocksOnly : NativeOpTrait<"NeedsBlocksOnly"> { let cppNamespace = "::shale::nn"; }

def NN_Adamw8bitOp : NN_AnyUpdateOp<"adamw8bit", ["moment1", "moment2"],
    ["lr", "beta1", "beta2", "epsilon", "weight_decay", "bias1", "bias2"], 40, NN_UpdatesRanges,
    [DeclareOpInterfaceMethods<OptimizerUpdateInterface, ["getHyperNumbers", "hasElementwiseState"]>,
     DeclareOpInterfaceMethods<GroupUpdateInterface>, NN_NeedsBlocksOnly, AllShapesMatch<["param", "grad"]>], StaticShapeTensorOf<[I32]>> {
  let summary = "AdamW update of a parameter or a flat group whose moments have 8 bits per element";
  let text = [{
    The update of `nn.adamw`, computed in f32 from moments that are stored in blocks, as by bitsandbytes and torchao (Dettmers and others,
    arXiv 2110.02861). A block has 256 elements of a parameter in row-major order, the last one of a parameter fewer. It is 65 words:
    byte k of word j, from the lowest, is the code of element 64 * k + j, and word 64 is the f32 scale, the block's largest magnitude.
    The new moments are rounded after the parameter is updated.

    A code is a small float. With c in its low 7 bits, the first moment is 2^floor((c - 127) / 8) * (1 + (c - 127) mod 8 / 8) times the
    scale, 0 if c is 0, and negative if bit 7 is set. The second moment has 255 instead of 127 and no sign: 32 powers of two to the
    first one's 16, since it is a mean of squares. Values are rounded to nearest; a second moment above 0 is never rounded to 0.

    `segments`, `offset` and `enable` are as in `nn.adamw`.
  }];
  let life = [{made by autodiff; moved onto flat groups by `shale-materialize-units`; lives up to codegen}];
  let constraints = [{
    - (C3) the state has one dimension, and 65 words per block; with `segments`, these begin at multiples of 256, of which
      the parameter's number of elements is one, too.}];
  let example = "%p1, %m1, %v1 = nn.adamw8bit %p, %g, %m, %v enable %e scale %s lr %lr beta1 %b1 beta2 %b2 epsilon %eps weight_decay %wd bias1 %c1 bias2 %c2 : tensor<300xf32> state tensor<130xi32>, tensor<f32>";
  let hasVerifier = 1;
  let extraClassDefinition = definition # [{
    bool $cppClass::hasElementwiseState() { return false; }
  }];
}

def NN_AdafactorOp : NN_AnyUpdateOp<"adafactor", ["moment"],
    ["lr", "beta2_decay", "epsilon1", "epsilon2", "clip", "weight_decay", "weight", "limit"], 14, NN_UpdatesOneParameter,
    [DeclareOpInterfaceMethods<OptimizerUpdateInterface, ["getHyperNumbers", "hasElementwiseState"]>,
     DeclareOpInterfaceMethods<GroupUpdateInterface, ["gathersParameters"]>, AllShapesMatch<["param", "grad"]>]> {
  let summary = "Adafactor update of a parameter";
  let text = [{
    PyTorch's torch.optim.Adafactor (Shazeer and Stern, arXiv 1804.04235), with g = grad * scale.
    A parameter of two or more dimensions is the matrices of its last two. Its moment is factored: the
    means of g * g of every row of every matrix, then those of every column. With `row` and `col` that of
    the element's row and column, and `mean` the mean of its matrix' rows:

    ```
    row       = row + (mean of g * g along the row - row) * weight
    col       = col + (mean of g * g along the column - col) * weight
    variance  = row * col / max(mean, epsilon1)
    ```

    The moment of other parameters has their shape: variance = variance + (g * g - variance) * weight. Then, with
    rms(x) the root of the mean of x * x over the parameter,

    ```
    direction = g / sqrt(max(variance, epsilon1 * epsilon1))
    rate      = max(epsilon2, rms(param)) * min(lr, limit) / max(1, rms(direction) / clip)
    param     = param * (1 - lr * weight_decay) - rate * direction
    ```

    where `weight` is t^-beta2_decay and `limit` 1 / sqrt(t) for the step number t from 1. `enable` is as in `nn.adamw`.
  }];
  let life = [{made by autodiff; on flat groups `shale-materialize-units` replaces it by elementwise ops, `nn.segment_means`,
    `nn.segment_broadcast` and sums over ranks; parameters that tensor axes split are gathered}];
  let constraints = [{
    - (C2) the moment has the parameter's shape if that has less than two dimensions; else it has one dimension,
      and one element per row and per column. In a partitioned module, where the parameter may be a part, the moment is
      that of the whole parameter.}];
  let example = "%p1, %m1 = nn.adafactor %p, %g, %m enable %e scale %s lr %lr beta2_decay %b epsilon1 %e1 epsilon2 %e2 clip %d weight_decay %wd weight %w limit %l : tensor<4x8xf32> state tensor<12xf32>, tensor<f32>";
  let hasVerifier = 1;
  let extraClassDefinition = definition # [{
    bool $cppClass::hasElementwiseState() { return false; }
    bool $cppClass::gathersParameters() { return true; }
  }];
}

// Needs of the elements of other ranks no more than means of the whole parameter, one number per segment of the group, by
// GroupUpdate::sumOverSlices. Tensor axes may then split the parameter.
def NN_NeedsMeansOnly : NativeOpTrait<"NeedsMeansOnly"> { let cppNamespace = "::shale::nn"; }

def NN_LambOp : NN_AnyUpdateOp<"lamb", ["moment1", "moment2"],
    ["lr", "beta1", "beta2", "epsilon", "weight_decay", "bias1", "bias2"], 20, NN_UpdatesOneParameter,
    [DeclareOpInterfaceMethods<OptimizerUpdateInterface, ["getHyperNumbers"]>, DeclareOpInterfaceMethods<GroupUpdateInterface>, NN_NeedsMeansOnly,
     AllShapesMatch<["param", "grad", "moment1"]>]> {
  let summary = "LAMB update of a parameter";
  let text = [{
    LAMB (You and others, arXiv 1904.00962, algorithm 2), which is NVIDIA's FusedLAMB with use_nvlamb: every parameter has a trust
    ratio. With g = grad * scale:

    ```
    moment1 = moment1 * beta1 + g * (1 - beta1)
    moment2 = moment2 * beta2 + g * g * (1 - beta2)
    update  = moment1 / bias1 / (sqrt(moment2 / bias2) + epsilon) + param * weight_decay
    ratio   = norm(param) / norm(update)   or 1 if one of the norms is 0
    param   = param - lr * ratio * update
    ```

    `bias1`, `bias2` and `enable` are as in `nn.adamw`; a norm is that of the whole parameter.
  }];
  let life = [{made by autodiff; on flat groups `shale-materialize-units` replaces it by elementwise ops, `nn.segment_means`,
    `nn.segment_broadcast` and sums over ranks}];
  let example = "%p1, %m1, %v1 = nn.lamb %p, %g, %m, %v enable %e scale %s lr %lr beta1 %b1 beta2 %b2 epsilon %eps weight_decay %wd bias1 %c1 bias2 %c2 : tensor<8xf32>, tensor<f32>";
}

def NN_MuonOp : NN_AnyUpdateOp<"muon", ["momentum"], ["lr", "beta", "nesterov", "match_rms_adamw", "weight_decay"], 14, NN_UpdatesOneParameter,
    [DeclareOpInterfaceMethods<OptimizerUpdateInterface, ["getHyperNumbers"]>, DeclareOpInterfaceMethods<GroupUpdateInterface, ["gathersParameters"]>,
     AllShapesMatch<["param", "grad", "momentum"]>]> {
  let summary = "Muon update of a matrix";
  let text = [{
    PyTorch's torch.optim.Muon (Jordan and others, kellerjordan.github.io/posts/muon) for a parameter of two dimensions, with
    g = grad * scale:

    ```
    momentum  = momentum + (g - momentum) * (1 - beta)
    ahead     = momentum + (g - momentum) * (1 - beta) * nesterov
    x         = ahead / max(norm(ahead), 1e-7)
    x         = 3.4445 * x + (-4.775 * x * x' + 2.0315 * (x * x') * (x * x')) * x     five times
    factor    = sqrt(max(1, rows / columns))                              if match_rms_adamw is 0
    factor    = 0.2 * sqrt(max(rows, columns))                            if match_rms_adamw is 1
    param     = param * (1 - lr * weight_decay) - lr * factor * x
    ```

    norm is the Frobenius norm, x' the transpose of x. With more rows than columns, x is the transpose of `ahead` until
    the last line. `enable` is as in `nn.adamw`.
  }];
  let life = [{made by autodiff; on flat groups `shale-materialize-units` replaces it by matmuls of whole matrices, which it
    gathers, and `nn.muon_step`}];
  let constraints = [{
    - (C2) the parameter has two dimensions.}];
  let example = "%p1, %m1 = nn.muon %p, %g, %m enable %e scale %s lr %lr beta %mu nesterov %n match_rms_adamw %r weight_decay %wd : tensor<8x4xf32>, tensor<f32>";
  let hasVerifier = 1;
  let extraClassDefinition = definition # [{
    bool $cppClass::gathersParameters() { return true; }
  }];
}

def NN_MuonStepOp : NN_UpdateBase<"muon_step", ["momentum", "direction"], ["lr", "beta", "weight_decay"],
    "type($param) `grad` type($grad) `,` type($momentum) `,` type($direction)", 9,
    [DeclareOpInterfaceMethods<OptimizerUpdateInterface, ["getHyperNumbers"]>, DeclareOpInterfaceMethods<ElementwiseUpdateInterface>,
     AllShapesMatch<["param", "grad", "momentum", "direction"]>, AllTypesMatch<["momentum", "new_momentum"]>,
     AllTypesMatch<["direction", "new_direction"]>, NN_UpdatesRanges]> {
  let summary = "The last part of Muon's update of a flat group";
  let text = [{
    The lines of `nn.muon` that work on single elements. `direction` is factor * x of these; it comes out as it is, so that
    the op has the form of an update and may overwrite it:

    ```
    momentum  = momentum + (g - momentum) * (1 - beta)
    param     = param * (1 - lr * weight_decay) - lr * direction
    ```

    `segments`, `offset` and `enable` are as in `nn.adamw`.
  }];
  let life = [{made by `shale-materialize-units` from `nn.muon`; lives up to codegen}];
  let example = "%p1, %m1, %d1 = nn.muon_step %p, %g, %m, %d enable %e scale %s lr %lr beta %mu weight_decay %wd : tensor<8xf32> grad tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>";
  let classConstraints = NN_UpdatesRanges.constraints;
}

def NN_AssignOp : NN_UpdateBase<"assign", [], [], "type($param) `grad` type($grad)", 1,
    [DeclareOpInterfaceMethods<OptimizerUpdateInterface, ["getHyperNumbers"]>, DeclareOpInterfaceMethods<ElementwiseUpdateInterface>,
     AllShapesMatch<["param", "grad"]>, NN_UpdatesRanges]> {
  let summary = "The last part of an update whose other parts are elementwise ops: rounds the new parameters";
  let text = [{
    The new parameter is grad * scale. `segments`, `offset`, `enable` and `rounding` are as in `nn.adamw`.
  }];
  let life = [{made by `shale-materialize-units` from `nn.lamb` and `nn.adafactor` if parameters are rounded
    stochastically; lives up to codegen}];
  let classConstraints = NN_UpdatesRanges.constraints;
  let constraints = NN_RoundingConstraints<>.text;
  let example = "%p1 = nn.assign %p, %new enable %e scale %s rounded by %seed, %t : tensor<i64>, tensor<i64> : tensor<8xbf16> grad tensor<8xf32>, tensor<f32>";
}

#endif // SHALE_NN_OPTIMIZER_TD
