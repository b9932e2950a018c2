//===- Data.td - Data movement --------------------------------------------===//
#ifndef SHALE_NN_DATA_TD
#define SHALE_NN_DATA_TD

include "dialects/nn/NNBase.td"

def NN_ReshapeOp : NN_Op<"reshape", [Pure, NN_Sharded, NN_IndexedMove, NN_Moves, NN_View, NN_Differentiable, NN_AnyNumeric]> {
  let summary = "The same elements, row-major, in another shape";
  let description = [{
    Life: made by import and autodiff; costs nothing: after plan it is an alias.

    Constraints:
    - (C1) operand and result have the same number of elements and the same element type.

    Example: `%1 = nn.reshape %0 : tensor<4x8xf32> -> tensor<32xf32>`
  }];
  let arguments = (ins NN_Tensor:$input);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def NN_TransposeOp : NN_Op<"transpose", [Pure, NN_Sharded, NN_IndexedMove, NN_Moves, NN_Differentiable, NN_AnyNumeric]> {
  let summary = "Permutes dimensions";
  let description = [{
    Result dimension i is operand dimension perm[i].

    Life: made by import and autodiff; gone after fusion.

    Constraints:
    - (C1) `perm` is a permutation of the operand's dimensions.
    - (C2) the result has the operand's element type and the permuted shape.

    Example: `%1 = nn.transpose %0 perm = [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>`
  }];
  let arguments = (ins NN_AnyTensor:$input, DenseI64ArrayAttr:$perm);
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = "$input `perm` `=` $perm attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def NN_BroadcastOp : NN_Op<"broadcast", [Pure, NN_Sharded, NN_IndexedMove, NN_Moves, NN_Differentiable, NN_AnyNumeric]> {
  let summary = "Repeats along dimensions";
  let description = [{
    Operand dimension i is result dimension dims[i]; other result dimensions,
    and those where the operand's size is 1, repeat.

    Life: made by import, autodiff and decomposition; gone after fusion.

    Constraints:
    - (C1) `dims` has one entry per operand dimension, strictly increasing, each a result dimension.
    - (C2) each operand size is 1 or the result's size there.
    - (C3) element types are equal.

    Example: `%1 = nn.broadcast %0 dims = [1] : tensor<8xf32> -> tensor<4x8xf32>`
  }];
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input `dims` `=` $dims attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def NN_SliceOp : NN_Op<"slice", [Pure, NN_Sharded, NN_IndexedMove, NN_ViewWhere, NN_MovesSome, NN_Partitionable, NN_Differentiable, NN_AnyNumeric]> {
  let summary = "A strided rectangle of a tensor";
  let description = [{
    Along dimension i: elements starts[i], starts[i] + strides[i], ... below limits[i].
    A slice along the first dimension alone, with stride 1 and from a multiple of 64
    bytes on, is a view.

    Life: made by import; after fusion only views are left.

    Constraints:
    - (C1) one start, limit and stride per dimension; 0 <= start <= limit <= size; stride >= 1.
    - (C2) the result has the operand's element type and ceil((limit - start) / stride) elements along each dimension.

    Example: `%1 = nn.slice %0 starts = [0, 2] limits = [4, 8] strides = [1, 3] : tensor<4x8xf32> -> tensor<4x2xf32>`
  }];
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$starts,
                       DenseI64ArrayAttr:$limits, DenseI64ArrayAttr:$strides);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = [{
    $input `starts` `=` $starts `limits` `=` $limits `strides` `=` $strides
    attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def NN_PadOp : NN_Op<"pad", [Pure, NN_Sharded, NN_IndexedMove, NN_Moves, NN_Partitionable, NN_Differentiable, NN_AnyNumeric]> {
  let summary = "Pads around and between the elements";
  let description = [{
    Along dimension i: low[i] times the value, the elements with interior[i]
    times the value between neighbours, then high[i] times the value. The value
    is a number, converted to the element type.

    Life: made by import (Pad) and as the gradient of slice; gone after fusion.

    Constraints:
    - (C1) one low, high and interior per dimension, none negative.
    - (C2) the result has the operand's element type and low + size + interior * max(size - 1, 0) + high elements along each dimension.

    Example: `%1 = nn.pad %0 low = [0] high = [1] interior = [0] value = -1.000000e+02 : tensor<4xi64> -> tensor<5xi64>`
  }];
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$low,
                       DenseI64ArrayAttr:$high, DenseI64ArrayAttr:$interior,
                       F64Attr:$value);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = [{
    $input `low` `=` $low `high` `=` $high `interior` `=` $interior `value` `=` $value
    attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def NN_ConcatOp : NN_Op<"concat", [Pure, NN_Sharded, NN_IndexedMove, NN_Moves, NN_Differentiable, NN_AnyNumeric]> {
  let summary = "Joins tensors along one dimension";
  let description = [{
    Life: made by import and decomposition; gone after fusion.

    Constraints:
    - (C1) at least one operand; `dim` is a dimension.
    - (C2) element types and all other dimensions are equal; along `dim` the result has the sum of the sizes.

    Example: `%2 = nn.concat %0, %1 dim = 0 : (tensor<2x8xf32>, tensor<3x8xf32>) -> tensor<5x8xf32>`
  }];
  let arguments = (ins Variadic<NN_Tensor>:$inputs, I64Attr:$dim);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$inputs `dim` `=` $dim attr-dict `:` functional-type($inputs, $result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

#endif // SHALE_NN_DATA_TD
