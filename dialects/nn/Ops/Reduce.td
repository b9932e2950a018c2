//===- Reduce.td - Reductions and running sums ----------------------------===//
#ifndef SHALE_NN_REDUCE_TD
#define SHALE_NN_REDUCE_TD

include "dialects/nn/NNBase.td"

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

#endif // SHALE_NN_REDUCE_TD
