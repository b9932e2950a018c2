//===- Attention.td - Attention and rotary positions ----------------------===//
#ifndef SHALE_NN_ATTENTION_TD
#define SHALE_NN_ATTENTION_TD

include "dialects/nn/NNBase.td"

def NN_AttentionOp : NN_Op<"attention", [Pure, AttrSizedOperandSegments, NN_Sharded, NN_Partitionable, NN_StochasticWhere, NN_Numeric, NN_Differentiable, NN_Cost, NN_Decomposable]> {
  let summary = "Scaled dot-product attention";
  let description = [{
    result = softmax(scale * q k^T + mask) v for each batch row and head. H is a
    multiple of the number of key heads G: query head h reads key head
    h / (H / G) (grouped-query attention). `lse` is the logarithm of each row's
    sum of exponentials, kept for the gradient.

    Where `seen` is false, the score becomes `hidden` (-inf if not given), or with
    `added`, `hidden` is added to it. With `causal`, position t attends only to
    positions s <= t + (S - T); with `window` = W, only to positions that are fewer
    than W from t + (S - T), on both sides. The scores of others are -inf. A row whose scores
    are all -inf is NaN. With `guard` the row and its lse are 0 instead, and it
    has no gradient.

    With `dropout`, elements of the softmax, [B, H, T, S], are dropped as by
    `nn.dropout`, before the matmul with v. `random` holds the seed, the step, the
    micro-batch and, in a local form, the number of its first element.

    Life: made by recover; becomes a blocked kernel around gemm, which never
    holds a T x S matrix for all heads.

    Constraints:
    - (C1) query [B, H, T, D], key [B, G, S, D], value [B, G, S, E], result [B, H, T, E] of one element type,
      lse [B, H, T] of that type, or of f32 if it is a 16-bit float type.
    - (C2) H is a positive multiple of G.
    - (C3) mask and seen, if present, have rank 4 and each size is 1 or that of [B, H, T, S].
    - (C4) scale is finite.
    - (C5) with `dropout` there are three random operands, or four and `of` = [B, G, R, T, S] of the whole with
      R query heads per key head; without it there are none. Ratio and id are as in `nn.dropout`.
    - (C6) `hidden` requires seen and is finite or -inf; `added` requires a finite `hidden`.
    - (C7) window is positive.

    Example: `%o, %lse = nn.attention %q, %k, %v causal scale = 2.500000e-01 : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$query, NN_FloatTensor:$key, NN_FloatTensor:$value,
                       Optional<NN_FloatTensor>:$mask, Optional<NN_BoolTensor>:$seen, Variadic<NN_RandomScalar>:$random,
                       OptionalAttr<F64Attr>:$hidden, UnitAttr:$added, UnitAttr:$guard, UnitAttr:$causal, OptionalAttr<I64Attr>:$window, F64Attr:$scale,
                       OptionalAttr<NN_DropAttr>:$dropout);
  let results = (outs NN_FloatTensor:$result, NN_FloatTensor:$lse);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`mask` $mask^ `:` type($mask))?
    (`seen` $seen^ `:` type($seen) (`hidden` `=` $hidden^)? (`added` $added^)?)? (`guard` $guard^)? (`causal` $causal^)?
    (`window` `=` $window^)?
    `scale` `=` $scale
    (`dropout` $dropout^ `(` $random `:` type($random) `)`)? attr-dict `:` type($query) `,` type($key) `,` type($value) `->` type($result) `,` type($lse)
  }];
  let hasVerifier = 1;
}

def NN_AttentionGradOp : NN_Op<"attention_grad", [Pure, AttrSizedOperandSegments, AllTypesMatch<["query", "query_grad"]>,
    AllTypesMatch<["key", "key_grad"]>, AllTypesMatch<["value", "value_grad"]>, AllTypesMatch<["output", "grad"]>, NN_Sharded, NN_Partitionable, NN_Numeric, NN_Cost, NN_Decomposable]> {
  let summary = "Gradient of attention";
  let description = [{
    Computed from the operands, the result and the lse of the forward pass, and the
    gradient of the result. Masks have no gradient.

    Life: made by autodiff; becomes a blocked kernel around gemm.

    Constraints:
    - (C1) types are as in `nn.attention`; grad has result's type; the results have the types of query, key and value.

    Example: `%dq, %dk, %dv = nn.attention_grad %q, %k, %v, %o, %lse, %do causal scale = 2.500000e-01 : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$query, NN_FloatTensor:$key, NN_FloatTensor:$value,
                       NN_FloatTensor:$output, NN_FloatTensor:$lse, NN_FloatTensor:$grad,
                       Optional<NN_FloatTensor>:$mask, Optional<NN_BoolTensor>:$seen, Variadic<NN_RandomScalar>:$random,
                       OptionalAttr<F64Attr>:$hidden, UnitAttr:$added, UnitAttr:$guard, UnitAttr:$causal, OptionalAttr<I64Attr>:$window, F64Attr:$scale,
                       OptionalAttr<NN_DropAttr>:$dropout);
  let results = (outs NN_FloatTensor:$query_grad, NN_FloatTensor:$key_grad, NN_FloatTensor:$value_grad);
  let assemblyFormat = [{
    $query `,` $key `,` $value `,` $output `,` $lse `,` $grad (`mask` $mask^ `:` type($mask))?
    (`seen` $seen^ `:` type($seen) (`hidden` `=` $hidden^)? (`added` $added^)?)? (`guard` $guard^)? (`causal` $causal^)?
    (`window` `=` $window^)?
    `scale` `=` $scale
    (`dropout` $dropout^ `(` $random `:` type($random) `)`)? attr-dict `:` type($query) `,` type($key) `,` type($value) `,`
    type($output) `,` type($lse)
  }];
  let hasVerifier = 1;
}

def NN_RopeOp : NN_Op<"rope", [Pure, AllTypesMatch<["input", "result"]>, AllTypesMatch<["cos", "sin"]>, NN_Sharded, NN_Numeric, NN_Differentiable, NN_Decomposable]> {
  let summary = "Rotary position embedding";
  let description = [{
    Rotates pairs of the first R elements of the last dimension, R twice the
    last dimension of `cos` (Su et al., arXiv 2104.09864): elements i and
    i + R/2, or with `interleaved` 2i and 2i + 1, become
    (a cos - b sin, b cos + a sin); elements from R on are unchanged. The gradient is the
    same op with `inverse`, which rotates the other way. With `headed`, a dimension of heads
    is between positions and features.

    Life: made by recover; decomposed by fusion.

    Constraints:
    - (C1) input [..., T, D], with `headed` [..., T, H, D]; cos and sin [T, R/2] with 0 < R <= D, of input's element type (f32 and a 16-bit float type may be mixed);
      result has input's type.

    Example: `%1 = nn.rope %x, %cos, %sin : tensor<2x4x8x16xf32>, tensor<8x8xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$cos, NN_FloatTensor:$sin,
                       UnitAttr:$interleaved, UnitAttr:$inverse, UnitAttr:$headed);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $cos `,` $sin (`interleaved` $interleaved^)? (`inverse` $inverse^)? (`headed` $headed^)? attr-dict `:` type($input) `,` type($cos)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the number of the dimension of positions.
    int64_t getPositionDim();
  }];
}

#endif // SHALE_NN_ATTENTION_TD
