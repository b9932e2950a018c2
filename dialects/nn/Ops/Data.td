//===- Data.td - Constants and data movement ------------------------------===//
#ifndef SHALE_NN_DATA_TD
#define SHALE_NN_DATA_TD

include "dialects/nn/NNBase.td"

def NN_ConstantOp : NN_Op<"constant", [Pure, ConstantLike, AllTypesMatch<["value", "result"]>, NN_Sharded, NN_IndexedWhere, NN_Partitionable]> {
  let summary = "A tensor known at compile time";
  let description = [{
    Life: made by import and folding; becomes immediate operands of clusters or
    constant data of the program.

    Constraints:
    - (C1) the type of `value` is the result's.

    Example: `%0 = nn.constant dense<1.0> : tensor<4xf32>`
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$value attr-dict";
  let builders = [OpBuilder<(ins "::mlir::ElementsAttr":$value)>];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def NN_IotaOp : NN_Op<"iota", [Pure, NN_Sharded, NN_Indexed, NN_Partitionable]> {
  let summary = "Counts along one dimension";
  let description = [{
    Element (i0, i1, ...) is i_dim.

    Life: made by import and by decomposition; gone after fusion.

    Constraints:
    - (C1) `dim` is a dimension of the result.

    Example: `%0 = nn.iota dim = 1 : tensor<4x8xi64>`
  }];
  let arguments = (ins I64Attr:$dim);
  let results = (outs NN_NumberTensor:$result);
  let assemblyFormat = "`dim` `=` $dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}

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
  let arguments = (ins NN_Tensor:$input, DenseI64ArrayAttr:$perm);
  let results = (outs NN_Tensor:$result);
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

def NN_SliceOp : NN_Op<"slice", [Pure, NN_Sharded, NN_IndexedMove, NN_MovesSome, NN_Partitionable, NN_Differentiable, NN_AnyNumeric]> {
  let summary = "A strided rectangle of a tensor";
  let description = [{
    Along dimension i: elements starts[i], starts[i] + strides[i], ... below limits[i].

    Life: made by import; gone after fusion.

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

def NN_PadOp : NN_Op<"pad", [Pure, NN_Sharded, NN_IndexedMove, NN_Moves, NN_Differentiable, NN_AnyNumeric]> {
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

def NN_GatherNdGradOp : NN_Op<"gather_nd_grad", [Pure, NN_Sharded, NN_Numeric]> {
  let summary = "Gradient of picking by index tuples";
  let description = [{
    Each slice of `grad` is added to the slice of the result that `nn.gather_nd`
    reads for it, in the order of the tuples; all other elements are zero. A tuple
    out of range adds nothing.

    Life: made by autodiff; lives up to codegen.

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

def NN_CumsumOp : NN_Op<"cumsum", [Pure, SameOperandsAndResultType, NN_Sharded, NN_Indexed, NN_Differentiable, NN_Numeric]> {
  let summary = "Running sum along one dimension";
  let description = [{
    With `exclusive` the sum leaves out the element itself; with `reverse` it runs
    from the end.

    Life: made by import; gone after folding or fusion.

    Constraints:
    - (C1) `dim` is a dimension.

    Example: `%1 = nn.cumsum %0 dim = 1 : tensor<4x8xi64>`
  }];
  let arguments = (ins NN_NumberTensor:$input, I64Attr:$dim, UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs NN_NumberTensor:$result);
  let assemblyFormat = "$input `dim` `=` $dim (`exclusive` $exclusive^)? (`reverse` $reverse^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def NN_ReduceOp : NN_Op<"reduce", [Pure, NN_Sharded, NN_IndexedMove, NN_Differentiable, NN_Cost, NN_Numeric]> {
  let summary = "Reduces dimensions";
  let description = [{
    The sum, maximum, minimum or product over `dims`, which the result lacks.
    A maximum or minimum is NaN if an element is. The gradient of `max` and
    `min` goes to the elements that equal the result, in equal parts.

    Life: made by import, autodiff and decomposition; gone after fusion.

    Constraints:
    - (C1) `dims` are strictly increasing dimensions of the operand.
    - (C2) the result has the remaining dimensions and the operand's element type, or f32 if that is a 16-bit float type.

    Example: `%1 = nn.reduce sum %0 dims = [1] : tensor<4x8xf32> -> tensor<4xf32>`
  }];
  let arguments = (ins NN_ReduceKindAttr:$kind, NN_NumberTensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs NN_NumberTensor:$result);
  let assemblyFormat = "`` $kind $input `dims` `=` $dims attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

#endif // SHALE_NN_DATA_TD
