//===- Sdpa.td - Attention as libraries compute it ------------------------===//
#ifndef SHALE_NN_SDPA_TD
#define SHALE_NN_SDPA_TD

include "dialects/nn/NNBase.td"

def NN_SdpaOp : NN_Op<"sdpa", [Pure, NN_Numeric, NN_Cost, NN_Decomposable]> {
  let summary = "Attention without mask operands, with positions before heads";
  let description = [{
    The same as `nn.attention` without mask operands and dropout, on tensors whose heads follow
    one another for each position: [B, T, H, D] where `nn.attention` has [B, H, T, D].
    This is the layout of the matmuls around attention, so that nothing is transposed. A single
    operand holds the heads of query, key and value one after another, as a matmul of all three
    writes them, so that nothing is copied.

    Life: made by fusion where the target has a library for it; becomes `rt.sdpa`.

    Constraints:
    - (C1) inputs are query [B, T, H, D], key [B, S, G, D] and value [B, S, G, E], or one tensor [B, T, H + 2 G, D] with
      S = T and E = D; result [B, T, H, E] has their element type, lse [B, H, T] has that type, or f32 if it is a 16-bit float type.
    - (C2) H is a positive multiple of G.
    - (C3) with `causal`, T = S.
    - (C4) scale is finite.
    - (C5) window is positive and comes with `causal`.

    Example: `%o, %lse = nn.sdpa %q, %k, %v causal scale = 2.500000e-01 : tensor<2x8x4x16xbf16>, tensor<2x8x2x16xbf16>, tensor<2x8x2x16xbf16> -> tensor<2x8x4x16xbf16>, tensor<2x4x8xf32>`
  }];
  let arguments = (ins Variadic<NN_FloatTensor>:$inputs,
                       UnitAttr:$causal, OptionalAttr<I64Attr>:$window, F64Attr:$scale);
  let results = (outs NN_FloatTensor:$result, NN_FloatTensor:$lse);
  let assemblyFormat = [{
    $inputs (`causal` $causal^)? (`window` `=` $window^)? `scale` `=` $scale attr-dict `:`
    type($inputs) `->` type($result) `,` type($lse)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::shale::nn::AttentionSizes getSizes();
    /// Whether query, key and value are one tensor.
    bool hasPackedInputs() { return getInputs().size() == 1; }
  }];
}

def NN_SdpaGradOp : NN_Op<"sdpa_grad", [Pure, AllTypesMatch<["output", "grad"]>, NN_Numeric, NN_Cost, NN_Decomposable]> {
  let summary = "Gradient of nn.sdpa";
  let description = [{
    The gradients of query, key and value, computed as by `nn.attention_grad`; or one tensor with
    the heads of these gradients one after another, which a matmul of all three reads. With
    `deterministic` every run gives the same bits.

    Life: made by fusion where the target has a library for it; becomes `rt.sdpa_grad`.

    Constraints:
    - (C1) inputs and attributes are as in `nn.sdpa`, output and lse as its results; grad has output's type.
    - (C2) the results have the types of query, key and value; or there is one, [B, T, H + 2 G, D] of their element type, and
      T = S and D = E.

    Example: `%dq, %dk, %dv = nn.sdpa_grad %q, %k, %v from %o, %lse, %do causal deterministic scale = 2.500000e-01 : tensor<2x8x4x16xbf16>, tensor<2x8x2x16xbf16>, tensor<2x8x2x16xbf16> from tensor<2x8x4x16xbf16>, tensor<2x4x8xf32> -> tensor<2x8x4x16xbf16>, tensor<2x8x2x16xbf16>, tensor<2x8x2x16xbf16>`
  }];
  let arguments = (ins Variadic<NN_FloatTensor>:$inputs, NN_FloatTensor:$output,
                       NN_FloatTensor:$lse, NN_FloatTensor:$grad,
                       UnitAttr:$causal, OptionalAttr<I64Attr>:$window, UnitAttr:$deterministic, F64Attr:$scale);
  let results = (outs Variadic<NN_FloatTensor>:$gradients);
  let assemblyFormat = [{
    $inputs `from` $output `,` $lse `,` $grad (`causal` $causal^)? (`window` `=` $window^)?
    (`deterministic` $deterministic^)? `scale` `=` $scale attr-dict `:` type($inputs) `from` type($output) `,` type($lse)
    `->` type($gradients)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::shale::nn::AttentionSizes getSizes();
    /// Whether query, key and value are one tensor.
    bool hasPackedInputs() { return getInputs().size() == 1; }
    /// Whether the heads of all gradients are in one tensor.
    bool hasPackedGradients() { return getGradients().size() == 1; }
  }];
}

#endif // SHALE_NN_SDPA_TD
