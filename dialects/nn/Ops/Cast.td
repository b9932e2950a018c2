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

def NN_BitcastOp : NN_Op<"bitcast", [Pure, NN_ElementwiseOp, NN_ShardedAlike, NN_Follows, SameOperandsAndResultShape]> {
  let summary = "The same bits as another type";
  let description = [{
    The bits of each f32 as an i32, or those of each i32 as an f32.

    Life: made by fusion for messages that hold numbers of several types; inside `nn.cluster`.

    Constraints:
    - (C1) one of operand and result has f32, the other i32.

    Example: `%1 = nn.bitcast %0 : tensor<4xf32> -> tensor<4xi32>`
  }];
  let arguments = (ins StaticShapeTensorOf<[F32, I32]>:$input);
  let results = (outs StaticShapeTensorOf<[F32, I32]>:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

#endif // SHALE_NN_CAST_TD
