//===- Passes.td - From what an exporter wrote to what was meant ----------===//
#ifndef SHALE_IMPORT_PASSES_TD
#define SHALE_IMPORT_PASSES_TD

include "mlir/Pass/PassBase.td"

def SimplifyMovementPass : Pass<"shale-simplify-movement"> {
  let summary = "Removes reshapes and transposes that come to nothing";
  let description = [{
    A transpose between two reshapes that only merge and split leading
    dimensions becomes one transpose; two transposes in a row become one; a
    product that reads the transpose of a matrix reads the matrix itself
    (`transpose_lhs`, `transpose_rhs`).
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def SinkMovementPass : Pass<"shale-sink-movement"> {
  let summary = "Moves turns of the batch behind what is computed of each row";
  let description = [{
    A transpose that takes the leading dimension from the front (`[B, T, E]` to
    `[T, B, E]`, as torch.nn.MultiheadAttention has it) moves behind element by
    element ops, products of rows with a matrix, norms and slices, and is gone
    where it meets one that takes it back. Chains of reshapes and transposes
    become at most a reshape, a transpose and a reshape. The batch then stays a
    leading dimension, which ranks can share out.
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def RecoverActivationPass : Pass<"shale-recover-activation"> {
  let summary = "Finds GELU (erf and tanh) and SiLU in their decompositions";
  let description = [{
    `x * (1 + erf(x / sqrt(2))) / 2`, its approximation by tanh, and
    `x * sigmoid(x)`, in any order of factors, become `nn.gelu` and `nn.silu`.
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def RecoverNormPass : Pass<"shale-recover-norm"> {
  let summary = "Finds layer and RMS normalisation in their decompositions";
  let description = [{
    `x * rsqrt(mean(x^2) + epsilon) * scale` becomes `nn.rms_norm`;
    `(x - mean(x)) * rsqrt(mean((x - mean(x))^2) + epsilon) * scale + bias`
    becomes `nn.layer_norm`. The root may be written as a quotient.
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def RecoverRopePass : Pass<"shale-recover-rope"> {
  let summary = "Finds rotary position embeddings in their decomposition";
  let description = [{
    `x * cos + concat(-x[half:], x[:half]) * sin`, with constant cosines and
    sines that are equal in both halves and for all batch rows and heads,
    becomes `nn.rope`.
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def RecoverAttentionPass : Pass<"shale-recover-attention"> {
  let summary = "Finds scaled dot-product attention in its decomposition";
  let description = [{
    `softmax(q k^T * scale + mask) v` on [batch, heads, positions, width]
    becomes `nn.attention`. Factors on q, k and the scores are one scale. A
    constant mask that hides later positions, and nothing else, becomes
    `causal`; one that hides nothing goes. Keys and values that are repeated for
    groups of heads are read once. `select(is_nan(p), 0, p)` around the softmax
    goes when no row is hidden wholly; where one may be, the decomposition stays.
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

#endif // SHALE_IMPORT_PASSES_TD
