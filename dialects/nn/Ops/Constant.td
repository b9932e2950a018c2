//===- Constant.td - Values without operands ------------------------------===//
#ifndef SHALE_NN_CONSTANT_TD
#define SHALE_NN_CONSTANT_TD

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

#endif // SHALE_NN_CONSTANT_TD
