//===- Sdpa.td - Attention as libraries compute it ------------------------===//
#ifndef SHALE_NN_SDPA_TD
#define SHALE_NN_SDPA_TD

include "dialects/nn/NNBase.td"

def NN_SdpaOp : NN_Op<"sdpa", [Pure, NN_Numeric, NN_Cost, NN_Decomposable]> {
  let summary = "Attention without mask operands, with positions before heads";
  let description = [{
    The same as `nn.attention` without mask operands and dropout, on tensors whose heads follow
    one another for each position: [B, T, H, D] where `nn.attention` has [B, H, T, D].
    This is the layout of the products around attention, so that nothing is transposed.

    Life: made by fusion where the target has a library for it; becomes `rt.sdpa`.

    Constraints:
    - (C1) query [B, T, H, D], key [B, S, G, D], value [B, S, G, E], result [B, T, H, E] of one element type,
      lse [B, H, T] of that type, or of f32 if it is a 16-bit float type.
    - (C2) H is a positive multiple of G.
    - (C3) with `causal`, T = S.
    - (C4) scale is finite.
    - (C5) window is positive and comes with `causal`.

    Example: `%o, %lse = nn.sdpa %q, %k, %v causal scale = 2.500000e-01 : tensor<2x8x4x16xbf16>, tensor<2x8x2x16xbf16>, tensor<2x8x2x16xbf16> -> tensor<2x8x4x16xbf16>, tensor<2x4x8xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$query, NN_FloatTensor:$key, NN_FloatTensor:$value,
                       UnitAttr:$causal, OptionalAttr<I64Attr>:$window, F64Attr:$scale);
  let results = (outs NN_FloatTensor:$result, NN_FloatTensor:$lse);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`causal` $causal^)? (`window` `=` $window^)? `scale` `=` $scale attr-dict `:`
    type($query) `,` type($key) `,` type($value) `->` type($result) `,` type($lse)
  }];
  let hasVerifier = 1;
}

def NN_SdpaGradOp : NN_Op<"sdpa_grad", [Pure, AllTypesMatch<["output", "grad"]>, NN_Numeric, NN_Cost, NN_Decomposable]> {
  let summary = "Gradient of nn.sdpa";
  let description = [{
    The gradients of query, key and value, computed as by `nn.attention_grad`; or one tensor with
    the heads of these gradients one after another, which a product of all three reads. With
    `deterministic` every run gives the same bits.

    Life: made by fusion where the target has a library for it; becomes `rt.sdpa_grad`.

    Constraints:
    - (C1) types and attributes are as in `nn.sdpa`; grad has output's type.
    - (C2) the results have the types of query, key and value; or there is one, [B, T, H + 2 G, D] of their element type, and
      T = S and D = E.

    Example: `%dq, %dk, %dv = nn.sdpa_grad %q, %k, %v, %o, %lse, %do causal deterministic scale = 2.500000e-01 : tensor<2x8x4x16xbf16>, tensor<2x8x2x16xbf16>, tensor<2x8x2x16xbf16>, tensor<2x8x4x16xbf16>, tensor<2x4x8xf32> -> tensor<2x8x4x16xbf16>, tensor<2x8x2x16xbf16>, tensor<2x8x2x16xbf16>`
  }];
  let arguments = (ins NN_FloatTensor:$query, NN_FloatTensor:$key, NN_FloatTensor:$value,
                       NN_FloatTensor:$output, NN_FloatTensor:$lse, NN_FloatTensor:$grad,
                       UnitAttr:$causal, OptionalAttr<I64Attr>:$window, UnitAttr:$deterministic, F64Attr:$scale);
  let results = (outs Variadic<NN_FloatTensor>:$gradients);
  let assemblyFormat = [{
    $query `,` $key `,` $value `,` $output `,` $lse `,` $grad (`causal` $causal^)? (`window` `=` $window^)?
    (`deterministic` $deterministic^)? `scale` `=` $scale attr-dict `:` type($query) `,` type($key) `,` type($value) `,` type($output) `,` type($lse)
    `->` type($gradients)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether the heads of all gradients are in one tensor.
    bool isPacked() { return getGradients().size() == 1; }
  }];
}

#endif // SHALE_NN_SDPA_TD
