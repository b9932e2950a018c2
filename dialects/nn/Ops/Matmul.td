//===- Matmul.td - Matmuls ------------------------------------------------===//
#ifndef SHALE_NN_MATMUL_TD
#define SHALE_NN_MATMUL_TD

include "dialects/nn/NNBase.td"

def NN_MatmulOp : NN_Op<"matmul", [Pure, NN_Sharded, NN_Differentiable, NN_Cost, NN_Numeric]> {
  let summary = "Matmul, batched over leading dimensions";
  let description = [{
    result[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n]; `transpose_lhs`
    reads lhs as [b, k, m], `transpose_rhs` rhs as [b, n, k]. A matmul with a
    weight has no batch dimensions: the importer flattens rows with
    `nn.reshape`. Matmuls accumulate in f32 or wider.

    With `quantized` each operand is replaced by q / s, where q is operand * s rounded to the 8-bit
    float type that the attribute lists for it, and s the largest finite number of that type / the largest
    magnitude of the operand's elements (at least 1e-12), in f32. A split operand has a scale for
    each part. If an element is not finite, neither is the result.

    Life: made by import and autodiff; becomes `rt.gemm`.

    Constraints:
    - (C1) ranks of lhs, rhs and result are equal and at least 2; element types are equal, except that the result for 16-bit floats may be f32.
    - (C2) batch dimensions are equal.
    - (C3) m, n and k agree.
    - (C4) with `quantized` the ranks are 2, and its types are two of f8E4M3FN and f8E5M2, not both f8E5M2.

    Example: `%2 = nn.matmul %0, %1 transpose_rhs : (tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<6x8xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$lhs, NN_FloatTensor:$rhs,
                       UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs,
                       OptionalAttr<TypeArrayAttr>:$quantized);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs (`transpose_lhs` $transpose_lhs^)? (`transpose_rhs` $transpose_rhs^)? (`quantized` $quantized^)?
    attr-dict `:` functional-type(operands, $result)
  }];
  let hasVerifier = 1;
  let builders = [
    OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$lhs, "::mlir::Value":$rhs,
                   CArg<"bool", "false">:$transposeLhs, CArg<"bool", "false">:$transposeRhs),
              [{ build($_builder, $_state, result, lhs, rhs, transposeLhs, transposeRhs, nullptr); }]>];
  let extraClassDeclaration = [{
    /// Returns the 8-bit float type to which operand `number` is rounded; null if there is none.
    ::mlir::Type getQuantizedType(unsigned number) {
      return getQuantized() ? ::llvm::cast<::mlir::TypeAttr>((*getQuantized())[number]).getValue() : ::mlir::Type();
    }
  }];
}

def NN_MatmulAddOp : NN_Op<"matmul_add", [Pure, AllTypesMatch<["sum", "result"]>, NN_Cost, NN_Numeric]> {
  let summary = "Matmul that is added to a sum";
  let description = [{
    result = sum + `nn.matmul` of lhs and rhs, which `transpose_lhs` and
    `transpose_rhs` read as there. The library adds while it computes the
    matmul; the result may take the buffer of the sum.

    Life: made by memory, for a matmul over more rows than are computed at once;
    becomes `rt.gemm accumulate`.

    Constraints:
    - (C1) lhs, rhs and result are as in `nn.matmul` (C1 to C3); the result's elements have the type in
      which matmuls are summed: f32 for 16-bit floats, otherwise that of lhs.

    Example: `%3 = nn.matmul_add %0, %1, %2 transpose_lhs : (tensor<4x8xf32>, tensor<6x4xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$sum, NN_FloatTensor:$lhs, NN_FloatTensor:$rhs,
                       UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $sum `,` $lhs `,` $rhs (`transpose_lhs` $transpose_lhs^)? (`transpose_rhs` $transpose_rhs^)?
    attr-dict `:` functional-type(operands, $result)
  }];
  let hasVerifier = 1;
}

#endif // SHALE_NN_MATMUL_TD
