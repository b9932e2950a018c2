//===- Gather.td - Elements by index --------------------------------------===//
#ifndef SHALE_NN_GATHER_TD
#define SHALE_NN_GATHER_TD

include "dialects/nn/NNBase.td"

def NN_GatherOp : NN_Op<"gather", [Pure, NN_Sharded, NN_IndexedLookup, NN_IndexUser, NN_AnyNumeric]> {
  let summary = "Picks slices along one dimension by index";
  let description = [{
    ONNX Gather: the result's shape is the operand's with dimension `dim`
    replaced by the shape of `indices`. The result of an index outside [0, size) is undefined.
    It has no gradient: a trained table is `nn.embedding`.

    Life: made by import for index arithmetic; gone after folding or fusion.

    Constraints:
    - (C1) `dim` is a dimension of the operand.
    - (C2) the result has the operand's element type and the shape above.

    Example: `%2 = nn.gather %0, %1 dim = 0 : (tensor<9x8xf32>, tensor<2xi64>) -> tensor<2x8xf32>`
  }];
  let arguments = (ins NN_Tensor:$input, NN_IntTensor:$indices, I64Attr:$dim);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input `,` $indices `dim` `=` $dim attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

def NN_GatherNdOp : NN_Op<"gather_nd", [Pure, NN_Sharded, NN_IndexedLookup, NN_IndexUser, NN_Differentiable, NN_AnyNumeric]> {
  let summary = "Picks slices by index tuples";
  let description = [{
    ONNX GatherND: the first `batch_dims` dimensions of both operands are batch
    dimensions, the last dimension of `indices` is an index tuple into the
    following dimensions of the operand. A tuple out of range picks NaN, or 0 if
    the elements are not floats.

    Life: made by import (GatherND; GatherElements with all other dimensions as
    batch dimensions); gone after folding or fusion.

    Constraints:
    - (C1) batch dimensions are leading dimensions of both operands and equal.
    - (C2) the tuple is not longer than the operand's remaining rank.
    - (C3) the result has the operand's element type and shape indices[:-1] + input[batch_dims + tuple:].

    Example: `%2 = nn.gather_nd %0, %1 batch_dims = 0 : (tensor<9x8xf32>, tensor<5x2xi64>) -> tensor<5xf32>`
  }];
  let arguments = (ins NN_Tensor:$input, NN_IntTensor:$indices, I64Attr:$batch_dims);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input `,` $indices `batch_dims` `=` $batch_dims attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

def NN_GatherNdGradOp : NN_Op<"gather_nd_grad", [Pure, NN_Sharded, NN_Differentiable, NN_Numeric]> {
  let summary = "Sums of slices by index tuples, as in the gradient of picking";
  let description = [{
    Each slice of `grad` is added to the slice of the result that `nn.gather_nd`
    reads for it, in the order of the tuples; all other elements are zero. A tuple
    out of range adds nothing.

    Life: made by import (ScatterND, ScatterElements) and autodiff; lives up to codegen.

    Constraints:
    - (C1) `nn.gather_nd` of a tensor of the result's shape has grad's shape;
      grad has the result's element type, or a 16-bit float type if that is f32.

    Example: `%2 = nn.gather_nd_grad %0, %1 batch_dims = 1 : (tensor<4x1xi64>, tensor<4xf32>) -> tensor<4x9xf32>`
  }];
  let arguments = (ins NN_IntTensor:$indices, NN_FloatTensor:$grad, I64Attr:$batch_dims);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$indices `,` $grad `batch_dims` `=` $batch_dims attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

#endif // SHALE_NN_GATHER_TD
