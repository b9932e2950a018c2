//===- GroupedMatmul.td - Matmuls of groups of rows -----------------------===//
#ifndef SHALE_NN_GROUPEDMATMUL_TD
#define SHALE_NN_GROUPEDMATMUL_TD

include "dialects/nn/NNBase.td"

def NN_GroupedMatmulOp : NN_Op<"grouped_matmul", [Pure, NN_Sharded, NN_Differentiable, NN_MatmulCost, NN_Numeric, NN_Decomposable]> {
  let summary = "Matmul of each group of rows with a matrix of its own";
  let description = [{
    The rows of lhs are in groups, one after the other: group e has rows `ends[e - 1]` (0 for the first one) to
    `ends[e] - 1`. result[s, n] = sum over k of lhs[s, k] * rhs[e, k, n] for the group e of row s; `transpose_rhs` reads rhs
    as [e, n, k]. A row after the last group has a result of zeros. Ends do not decrease and lie in [0, S]; for others the
    result is undefined, but nothing else is. Sums are f32 or wider.

    `of` tells costs that the matrices are some of so many, over which rows are spread: those of other matrices are after the last
    group. Without it every row is in a group.

    Experts multiply the tokens that chose them so: the work is that of the rows, whatever the number of groups.

    Life: made by import and autodiff; becomes `rt.grouped_gemm` or a kernel, or is decomposed where the target has neither.

    Constraints:
    - (C1) lhs is [S, K], rhs [E, K, N] or transposed, `ends` [E], of type i32 or i64, with E at least 1, the result [S, N].
    - (C2) element types of lhs and rhs are equal; that of the result is the same, or f32 for 16-bit floats.
    - (C3) `of` is at least E.

    Example: `%3 = nn.grouped_matmul %0, %1 ends = %2 : (tensor<6x4xf32>, tensor<3x4x8xf32>, tensor<3xi32>) -> tensor<6x8xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$lhs, NN_FloatTensor:$rhs, NN_IntTensor:$ends, UnitAttr:$transpose_rhs,
                       OptionalAttr<I64Attr>:$of);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs (`transpose_rhs` $transpose_rhs^)? `ends` `=` $ends (`of` `=` $of^)? attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

def NN_GroupedMatmulGradOp : NN_Op<"grouped_matmul_grad", [Pure, NN_Sharded, NN_MatmulCost, NN_Numeric, NN_Decomposable]> {
  let summary = "Gradient of the matrices of a grouped matmul";
  let description = [{
    result[e, k, n] = sum over the rows s of group e of lhs[s, k] * rhs[s, n], with the groups of `nn.grouped_matmul`: zeros for a
    group without rows.

    Life: made by autodiff and import; becomes `rt.grouped_gemm` or a kernel, or is decomposed where the target has neither.

    Constraints:
    - (C1) lhs is [S, K], rhs [S, N], `ends` [E], of type i32 or i64, with E at least 1, the result [E, K, N].
    - (C2) as in `nn.grouped_matmul`.
    - (C3) `of` is at least E.

    Example: `%3 = nn.grouped_matmul_grad %0, %1 ends = %2 : (tensor<6x4xf32>, tensor<6x8xf32>, tensor<3xi32>) -> tensor<3x4x8xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$lhs, NN_FloatTensor:$rhs, NN_IntTensor:$ends, OptionalAttr<I64Attr>:$of);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs `ends` `=` $ends (`of` `=` $of^)? attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

def NN_ExpertMatmulOp : NN_Op<"expert_matmul", [Pure, NN_Sharded, NN_Partitionable, NN_Differentiable, NN_MatmulCost, NN_Numeric]> {
  let summary = "Matmul of each row with the matrix of its expert";
  let description = [{
    result[s, n] = sum over k of lhs[s, k] * rhs[experts[s], k, n]; `transpose_rhs` reads rhs as [e, n, k]. A row whose expert
    is outside of [0, E) has a result of zeros: a rank with some of the matrices uses this for the rows of other ranks. Sums
    are f32 or wider.

    Rows are in any order, so they can be split like those of other ops, and a split of the matrices makes the results partial
    sums. `shale-sort-experts` puts the rows of an expert together on each rank.

    With `parts` P, rows and matrices are in P equal parts, one after the other, and a row whose expert is in another part has a
    result of zeros, too: ranks that have a part of both need no other rows or matrices. `of` is that of `nn.grouped_matmul`.

    Life: made by `shale-recover-experts` and autodiff; becomes `nn.grouped_matmul`.

    Constraints:
    - (C1) lhs is [S, K], rhs [E, K, N] or transposed, with E at least 1, `experts` [S], of type i32 or i64, the result [S, N].
    - (C2) as in `nn.grouped_matmul`.
    - (C3) `parts` is positive and divides S and E.
    - (C4) `of` is at least E.

    Example: `%3 = nn.expert_matmul %0, %1 experts = %2 : (tensor<6x4xf32>, tensor<3x4x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$lhs, NN_FloatTensor:$rhs, NN_IntTensor:$experts, UnitAttr:$transpose_rhs,
                       DefaultValuedAttr<I64Attr, "1">:$parts, OptionalAttr<I64Attr>:$of);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs (`transpose_rhs` $transpose_rhs^)? `experts` `=` $experts (`parts` `=` $parts^)? (`of` `=` $of^)? attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

def NN_ExpertMatmulGradOp : NN_Op<"expert_matmul_grad", [Pure, NN_Sharded, NN_Partitionable, NN_MatmulCost, NN_Numeric]> {
  let summary = "Gradient of the matrices of experts";
  let description = [{
    result[e, k, n] = sum over the rows s with experts[s] == e of lhs[s, k] * rhs[s, n], with the parts of `nn.expert_matmul`.

    Life: made by `shale-recover-experts` and autodiff; becomes `nn.grouped_matmul_grad`.

    Constraints:
    - (C1) lhs is [S, K], rhs [S, N], `experts` [S], of type i32 or i64, the result [E, K, N] with E at least 1.
    - (C2) as in `nn.grouped_matmul`.
    - (C3) `parts` is positive and divides S and E.
    - (C4) `of` is at least E.

    Example: `%3 = nn.expert_matmul_grad %0, %1 experts = %2 : (tensor<6x4xf32>, tensor<6x8xf32>, tensor<6xi64>) -> tensor<3x4x8xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$lhs, NN_FloatTensor:$rhs, NN_IntTensor:$experts, DefaultValuedAttr<I64Attr, "1">:$parts, OptionalAttr<I64Attr>:$of);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs `experts` `=` $experts (`parts` `=` $parts^)? (`of` `=` $of^)? attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

#endif // SHALE_NN_GROUPEDMATMUL_TD
