//===- Embedding.td - Rows of a table -------------------------------------===//
#ifndef SHALE_NN_EMBEDDING_TD
#define SHALE_NN_EMBEDDING_TD

include "dialects/nn/NNBase.td"

def NN_EmbeddingOp : NN_Op<"embedding", [Pure, NN_Sharded, NN_IndexedLookup, NN_IndexUser, NN_Partitionable, NN_Differentiable, NN_AnyNumeric]> {
  let summary = "Looks up rows of a table";
  let description = [{
    result[..., :] = table[indices[...], :]. An index outside [0, V) gives a zero
    row and contributes no gradient. A table split over V uses this for rows that
    another rank holds. Row `padding` gets no gradient, as with PyTorch's
    `padding_idx`.

    Life: made by import (Gather of a float table); lives up to codegen.

    Constraints:
    - (C1) table is 2-D; the result has its element type and shape indices.shape + [D].
    - (C2) `padding` is a row of the table.

    Example: `%2 = nn.embedding %table, %ids padding = 0 : (tensor<256x64xf32>, tensor<4x8xi64>) -> tensor<4x8x64xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$table, NN_IntTensor:$indices, OptionalAttr<I64Attr>:$padding);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$table `,` $indices (`padding` `=` $padding^)? attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

def NN_EmbeddingGradOp : NN_Op<"embedding_grad", [Pure, NN_Sharded, NN_Partitionable, NN_Numeric]> {
  let summary = "Gradient of a table lookup";
  let description = [{
    result[v, :] = sum of grad[i, :] over all i with indices[i] == v, in the
    order of i.

    Life: made by autodiff; lives up to codegen.

    Constraints:
    - (C1) the result is 2-D [V, D]; grad has shape indices.shape + [D] and its element type, or a 16-bit float type if that is f32.

    Example: `%2 = nn.embedding_grad %ids, %dy : (tensor<4x8xi64>, tensor<4x8x64xf32>) -> tensor<256x64xf32>`
  }];
  let arguments = (ins NN_IntTensor:$indices, NN_FloatTensor:$grad);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$indices `,` $grad attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

#endif // SHALE_NN_EMBEDDING_TD
