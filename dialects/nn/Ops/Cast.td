//===- Cast.td - Conversions ----------------------------------------------===//
#ifndef SHALE_NN_CAST_TD
#define SHALE_NN_CAST_TD

include "dialects/nn/NNBase.td"

def NN_CastOp : NN_Op<"cast", [Pure, NN_ElementwiseOp, NN_Sharded, NN_MovesSome, NN_Follows, NN_Differentiable, SameOperandsAndResultShape]> {
  let summary = "Converts the element type";
  let description = [{
    Floats round to nearest even; float to integer truncates towards zero and
    saturates (NaN gives 0); to `i1` is true where the value is not zero.

    Life: made by import and by precision; gone after fusion.

    Example: `%1 = nn.cast %0 : tensor<4xi64> -> tensor<4xf32>`
  }];
  let arguments = (ins NN_Tensor:$input);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

#endif // SHALE_NN_CAST_TD
