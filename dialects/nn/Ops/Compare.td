//===- Compare.td - Comparisons and choice --------------------------------===//
#ifndef SHALE_NN_COMPARE_TD
#define SHALE_NN_COMPARE_TD

include "dialects/nn/NNBase.td"

def NN_IsNanOp : NN_Op<"is_nan", [Pure, NN_ElementwiseOp, NN_ShardedAlike, NN_Follows, SameOperandsAndResultShape]> {
  let summary = "True where the input is not a number";
  let description = [{
    Life: made by import; gone after fusion.

    Example: `%1 = nn.is_nan %0 : tensor<4xf32> -> tensor<4xi1>`
  }];
  let arguments = (ins NN_FloatTensor:$input);
  let results = (outs NN_BoolTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

def NN_CompareOp : NN_Op<"compare", [Pure, SameTypeOperands, NN_ElementwiseOp, NN_ShardedAlike, NN_Follows, SameOperandsAndResultShape]> {
  let summary = "Compares two tensors";
  let description = [{
    True where the predicate holds. Comparisons with NaN are false, except for
    `ne`, which is true.

    Life: made by import and by decomposition; gone after fusion.

    Example: `%2 = nn.compare lt %0, %1 : tensor<4xf32> -> tensor<4xi1>`
  }];
  let arguments = (ins NN_PredicateAttr:$predicate, NN_Tensor:$lhs, NN_Tensor:$rhs);
  let results = (outs NN_BoolTensor:$result);
  let assemblyFormat = "`` $predicate $lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
}

def NN_SelectOp : NN_Op<"select", [Pure, AllTypesMatch<["onTrue", "onFalse", "result"]>,
    NN_ElementwiseOp, NN_Sharded, NN_MovesSome, NN_Follows, NN_Differentiable, SameOperandsAndResultShape]> {
  let summary = "Chooses between two tensors, element by element";
  let description = [{
    Life: made by import (Where) and by decomposition; gone after fusion.

    Example: `%3 = nn.select %0, %1, %2 : tensor<4xi1>, tensor<4xf32>`
  }];
  let arguments = (ins NN_BoolTensor:$condition, NN_Tensor:$onTrue, NN_Tensor:$onFalse);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$condition `,` $onTrue `,` $onFalse attr-dict `:` type($condition) `,` type($result)";
}

#endif // SHALE_NN_COMPARE_TD
