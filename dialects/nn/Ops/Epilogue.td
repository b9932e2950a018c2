//===- Epilogue.td - Matmuls with an epilogue -----------------------------===//
#ifndef SHALE_NN_EPILOGUE_TD
#define SHALE_NN_EPILOGUE_TD

include "dialects/nn/EpilogueBase.td"
include "dialects/nn/NNBase.td"

def NN_MatmulEpilogueOp : NN_Op<"matmul_epilogue", [Pure, NN_Cost, NN_Numeric, NN_Decomposable]> {
  let summary = "Matmul with a bias, GELU or its gradient";
  let description = [{
    With p the `nn.matmul` of lhs and rhs:
    - `bias`: p + with, where `with` has an element for each column.
    - `gelu`: GELU of p + with, by the approximation with tanh. The second result, if there is one,
      is p + with, which the gradient reads.
    - `gelu_grad`: p times the derivative of this GELU at `with`, which has the shape of p.

    A library computes it without storing p, and rounds once. Otherwise p is rounded to the
    result's type, as is p + with before the GELU.

    Life: made by fusion where the target's library has such matmuls; becomes `rt.gemm_epilogue`.

    Constraints:
    - (C1) lhs, rhs and result are two-dimensional and as in `nn.matmul`, of one element type.
    - (C2) `with` has that type, and the shape [n], or [m, n] for `gelu_grad`.
    - (C3) only `gelu` has a second result; it has the type of the first.

    Example: `%y, %z = nn.matmul_epilogue gelu %x, %w with %b transpose_rhs : (tensor<4x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> (tensor<4x16xbf16>, tensor<4x16xbf16>)`
  }];
  let arguments = (ins NN_Epilogue:$epilogue, NN_FloatTensor:$lhs, NN_FloatTensor:$rhs,
                       NN_FloatTensor:$with, UnitAttr:$transpose_lhs, UnitAttr:$transpose_rhs);
  let results = (outs NN_FloatTensor:$result, Optional<NN_FloatTensor>:$before);
  let assemblyFormat = [{
    $epilogue $lhs `,` $rhs `with` $with (`transpose_lhs` $transpose_lhs^)? (`transpose_rhs` $transpose_rhs^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Builds what follows the matmul: the result, and the second one if the op has one.
    ::llvm::SmallVector<::mlir::Value> buildEpilogue(::mlir::OpBuilder &builder, ::mlir::Value matmul,
                                                     ::mlir::Value with);
  }];
}

#endif // SHALE_NN_EPILOGUE_TD
