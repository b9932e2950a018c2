//===- Norm.td - Normalizations over the last dimension -------------------===//
#ifndef SHALE_NN_NORM_TD
#define SHALE_NN_NORM_TD

include "dialects/nn/NNBase.td"

def NN_SoftmaxOp : NN_Op<"softmax", [Pure, SameOperandsAndResultType, NN_Sharded, NN_Follows, NN_Differentiable, NN_Decomposable]> {
  let summary = "Softmax over the last dimension";
  let description = [{
    exp(x - max) / sum(exp(x - max)); a row whose maximum is -inf gives NaN, as
    in ONNX and PyTorch.

    Life: made by import; most become part of `nn.attention` in recover; the
    rest is decomposed by fusion.

    Constraints:
    - (C1) the rank is at least 1.

    Example: `%1 = nn.softmax %0 : tensor<4x8xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$input);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def NN_LayerNormOp : NN_Op<"layer_norm", [Pure, AllTypesMatch<["input", "result"]>,
    AllTypesMatch<["scale", "bias"]>, AllTypesMatch<["mean", "rstd"]>, NN_Sharded, NN_Partitionable, NN_Numeric, NN_Differentiable, NN_Decomposable]> {
  let summary = "Layer normalization over the last dimension";
  let description = [{
    result = (x - mean) * rstd * scale + bias with the mean and
    rstd = 1 / sqrt(variance + epsilon) of each row (Ba et al., arXiv
    1607.06450). `mean` and `rstd` are kept for the gradient.

    Life: made by import and recover; decomposed by fusion.

    Constraints:
    - (C1) the rank of x is at least 1; result has x's type.
    - (C2) scale and bias are 1-D of the last dimension's size, of x's element type (f32 and a 16-bit float type may be mixed).
    - (C3) mean and rstd have x's shape without the last dimension, and its element type, or f32 if that is a 16-bit float type.
    - (C4) epsilon is finite and not negative.

    Example: `%y, %mean, %rstd = nn.layer_norm %x, %scale, %bias epsilon = 1.000000e-05 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$scale, NN_FloatTensor:$bias, F64Attr:$epsilon);
  let results = (outs NN_FloatTensor:$result, NN_FloatTensor:$mean, NN_FloatTensor:$rstd);
  let assemblyFormat = [{
    $input `,` $scale `,` $bias `epsilon` `=` $epsilon attr-dict `:`
    type($input) `,` type($scale) `->` type($mean)
  }];
  let hasVerifier = 1;
}

def NN_LayerNormGradOp : NN_Op<"layer_norm_grad", [Pure, AllTypesMatch<["input", "grad", "input_grad"]>,
    TypesMatchWith<"what scale's sums are held in", "scale", "scale_grad", "::shale::accumulatorType($_self)">,
    TypesMatchWith<"what scale's sums are held in", "scale", "bias_grad", "::shale::accumulatorType($_self)">,
    AllTypesMatch<["mean", "rstd"]>, NN_Sharded, NN_Partitionable, NN_Numeric, NN_Decomposable]> {
  let summary = "Gradient of layer normalization";
  let description = [{
    Life: made by autodiff; decomposed by fusion.

    Constraints:
    - (C1) grad has input's type; scale, mean and rstd are as in `nn.layer_norm`;
      the gradients of scale and bias have scale's type, or f32 if that is a 16-bit float type.

    Example: `%dx, %dscale, %dbias = nn.layer_norm_grad %x, %scale, %mean, %rstd, %dy : tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$scale, NN_FloatTensor:$mean,
                       NN_FloatTensor:$rstd, NN_FloatTensor:$grad);
  let results = (outs NN_FloatTensor:$input_grad, NN_FloatTensor:$scale_grad, NN_FloatTensor:$bias_grad);
  let assemblyFormat = [{
    $input `,` $scale `,` $mean `,` $rstd `,` $grad attr-dict `:`
    type($input) `,` type($scale) `,` type($mean)
  }];
  let hasVerifier = 1;
}

def NN_RmsNormOp : NN_Op<"rms_norm", [Pure, AllTypesMatch<["input", "result"]>, NN_Sharded, NN_Partitionable, NN_Numeric, NN_Differentiable, NN_Decomposable]> {
  let summary = "Root-mean-square normalization over the last dimension";
  let description = [{
    result = x * rstd * scale with rstd = 1 / sqrt(mean(x^2) + epsilon) of each
    row (Zhang and Sennrich, arXiv 1910.07467).

    Life: made by import and recover; decomposed by fusion.

    Constraints:
    - (C1) the rank of x is at least 1; result has x's type.
    - (C2) scale is 1-D of the last dimension's size, of x's element type (f32 and a 16-bit float type may be mixed).
    - (C3) rstd has x's shape without the last dimension, and its element type, or f32 if that is a 16-bit float type.
    - (C4) epsilon is finite and not negative.

    Example: `%y, %rstd = nn.rms_norm %x, %scale epsilon = 1.000000e-05 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$scale, F64Attr:$epsilon);
  let results = (outs NN_FloatTensor:$result, NN_FloatTensor:$rstd);
  let assemblyFormat = [{
    $input `,` $scale `epsilon` `=` $epsilon attr-dict `:` type($input) `,` type($scale) `->` type($rstd)
  }];
  let hasVerifier = 1;
}

def NN_RmsNormGradOp : NN_Op<"rms_norm_grad", [Pure, AllTypesMatch<["input", "grad", "input_grad"]>,
    TypesMatchWith<"what scale's sums are held in", "scale", "scale_grad", "::shale::accumulatorType($_self)">,
    NN_Sharded, NN_Partitionable, NN_Numeric, NN_Decomposable]> {
  let summary = "Gradient of root-mean-square normalization";
  let description = [{
    Life: made by autodiff; decomposed by fusion.

    Constraints:
    - (C1) grad has input's type; scale and rstd are as in `nn.rms_norm`;
      the gradient of scale has scale's type, or f32 if that is a 16-bit float type.

    Example: `%dx, %dscale = nn.rms_norm_grad %x, %scale, %rstd, %dy : tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$scale, NN_FloatTensor:$rstd, NN_FloatTensor:$grad);
  let results = (outs NN_FloatTensor:$input_grad, NN_FloatTensor:$scale_grad);
  let assemblyFormat = [{
    $input `,` $scale `,` $rstd `,` $grad attr-dict `:` type($input) `,` type($scale) `,` type($rstd)
  }];
  let hasVerifier = 1;
}

def NN_RunningStatisticOp : NN_Op<"running_statistic", [Pure, SameOperandsAndResultType, NN_ElementwiseOp,
    NN_ShardedAlike, NN_Follows, NN_Differentiable]> {
  let summary = "A statistic of the batch, whose running mean is state";
  let description = [{
    In training the result is `batch`, and the state that `running` reads becomes
    running * (1 - momentum) + batch * factor * momentum after each micro-batch.
    In `@evaluate` the result is `running`. `factor` turns the variance by which a
    batch is normalized into the unbiased one, n / (n - 1) for n elements per
    channel, as PyTorch's batch normalization does (Ioffe and Szegedy, arXiv
    1502.03167). No gradient reaches `running`.

    Life: made by import; autodiff replaces it by one of its operands and builds
    the update.

    Constraints:
    - (C1) momentum is in [0, 1]; factor is finite and positive.

    Example: `%1 = nn.running_statistic %batch, %running momentum = 1.000000e-01 factor = 1.000000e+00 : tensor<4xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$batch, NN_FloatTensor:$running, F64Attr:$momentum, F64Attr:$factor);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$batch `,` $running `momentum` `=` $momentum `factor` `=` $factor attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif // SHALE_NN_NORM_TD
