//===- Sort.td - Orders of elements ---------------------------------------===//
#ifndef SHALE_NN_SORT_TD
#define SHALE_NN_SORT_TD

include "dialects/nn/NNBase.td"

def NN_TopKOp : NN_Op<"top_k", [Pure, NN_Sharded, NN_Differentiable, NN_Numeric]> {
  let summary = "Largest or smallest elements of each line";
  let description = [{
    For each line of the last dimension the K elements that come first in the order of the line, and
    where they are. The order is by value, from the largest one on, or with `smallest` from the
    smallest one on. Of equal elements the one with the lower index comes first. NaN is larger than
    all numbers. With K the size of the dimension this is a stable sort.

    Life: made by import (TopK); lives up to codegen.

    Constraints:
    - (C1) the input has at least one dimension, and the last dimension of the results is at most as large as that of the input and below 2^31.
    - (C2) `values` has the input's element type and `indices` is of type i32 or i64; other dimensions are the input's.

    Example: `%values, %indices = nn.top_k %0 : tensor<8x16xf32> -> tensor<8x2xf32>, tensor<8x2xi64>`
  }];
  let arguments = (ins NN_NumberTensor:$input, UnitAttr:$smallest);
  let results = (outs NN_NumberTensor:$values, NN_IntTensor:$indices);
  let assemblyFormat = "$input (`smallest` $smallest^)? attr-dict `:` type($input) `->` type($values) `,` type($indices)";
  let hasVerifier = 1;
}

def NN_ArgsortOp : NN_Op<"argsort", [Pure, NN_AnyNumeric]> {
  let summary = "Stable order of indices";
  let description = [{
    `order` lists the positions of the N elements of `indices`, counted in row-major
    order, by value. Positions of equal values keep their order. `starts[v]` is the
    number of values below v, so that the positions of v are
    `order[starts[v]]` to `order[starts[v + 1] - 1]`. Values outside of [0, `bound`)
    are at the end, from `starts[bound]` on, in the order of their positions.

    Life: made by `shale-sort-lookups` and `shale-sort-experts`; lives up to codegen.

    Constraints:
    - (C1) `bound` is at least 0; it and the number of indices are below 2^31 - 1.
    - (C2) `order` has one element for each index, `starts` has `bound` + 1 elements; both are 1-D, of type i32.

    Example: `%order, %starts = nn.argsort %0 bound = 256 : tensor<4x8xi64> -> tensor<32xi32>, tensor<257xi32>`
  }];
  let arguments = (ins NN_IntTensor:$indices, I64Attr:$bound);
  let results = (outs NN_IntTensor:$order, NN_IntTensor:$starts);
  let assemblyFormat = "$indices `bound` `=` $bound attr-dict `:` type($indices) `->` type($order) `,` type($starts)";
  let hasVerifier = 1;
}

def NN_SortedEmbeddingGradOp : NN_Op<"sorted_embedding_grad", [Pure, NN_Numeric]> {
  let summary = "Gradient of a table lookup whose indices are sorted";
  let description = [{
    result[v, :] = sum of grad[order[i], :] over i from starts[v] to
    starts[v + 1] - 1, in this order, in the result's type. Whole pieces, 32 positions
    i from a multiple of 32 on, are not added again: pieces[p, :] is the sum of
    piece p. The operands but `grad` and `pieces` are the results of `nn.argsort`.
    Starts are clamped to [0, N], and an element of `order` outside of [0, N) adds
    nothing. The second result, if present, is squares[v] = the sum of the squares of
    result[v, :].

    Life: made by `shale-sort-lookups`; lives up to codegen.

    Constraints:
    - (C1) the result is 2-D [V, D] and `starts` has V + 1 elements.
    - (C2) grad is 2-D [N, D] and has the result's element type, or a 16-bit float type if that is f32; `order` has N elements.
    - (C3) pieces is [N floordiv 32, D], of the result's element type.
    - (C4) squares is [V], of the result's element type.

    Example: `%1 = nn.sorted_embedding_grad %order, %starts, %dy, %pieces : (tensor<70xi32>, tensor<257xi32>, tensor<70x64xbf16>, tensor<2x64xf32>) -> tensor<256x64xf32>`
  }];
  let arguments = (ins NN_IntTensor:$order, NN_IntTensor:$starts, NN_FloatTensor:$grad, NN_FloatTensor:$pieces);
  let results = (outs NN_FloatTensor:$result, Optional<NN_FloatTensor>:$squares);
  let assemblyFormat = "$order `,` $starts `,` $grad `,` $pieces attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif // SHALE_NN_SORT_TD
