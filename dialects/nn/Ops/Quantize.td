//===- Quantize.td - 8-bit floats and their matmuls -----------------------===//
#ifndef SHALE_NN_QUANTIZE_TD
#define SHALE_NN_QUANTIZE_TD

include "dialects/nn/NNBase.td"

def NN_Scale : Type<0DTensorOf<[F32]>.predicate, "0D tensor of f32", "::mlir::RankedTensorType">,
               BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getF32Type())">;

def NN_QuantizeOp : NN_Op<"quantize", [Pure, NN_ElementwiseOp, SameOperandsAndResultShape]> {
  let summary = "Rounds to 8-bit floats";
  let description = [{
    Floats round to nearest even. Numbers beyond the largest finite number of the result's type, and
    infinities, become that number, with their sign. NaN stays NaN.

    Life: made by fusion, from `quantized` of `nn.matmul`; gone after fusion.

    Example: `%1 = nn.quantize %0 : tensor<16x32xf32> -> tensor<16x32xf8E4M3FN>`
  }];
  let arguments = (ins StaticShapeTensorOf<[F32]>:$input);
  let results = (outs NN_Float8Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

def NN_QuantizedMatmulOp : NN_Op<"quantized_matmul", [Pure, NN_Cost]> {
  let summary = "Matmul of 8-bit floats";
  let description = [{
    result[m, n] = lhs_scale * rhs_scale * sum over k of lhs[m, k] * rhs[n, k]. Both operands have
    their terms of a sum next to each other, which GPUs require. Sums are f32, and are rounded once.

    Life: made by fusion, from `quantized` of `nn.matmul`; becomes `rt.gemm`.

    Constraints:
    - (C1) lhs, rhs and result are two-dimensional, and m, n and k agree.
    - (C2) not both lhs and rhs are f8E5M2; the result is f32 or a 16-bit float.

    Example: `%4 = nn.quantized_matmul %0, %1 scales %2, %3 : tensor<16x32xf8E4M3FN>, tensor<64x32xf8E4M3FN> -> tensor<16x64xbf16>`
  }];
  let arguments = (ins NN_Float8Tensor:$lhs, NN_Float8Tensor:$rhs,
                       NN_Scale:$lhs_scale, NN_Scale:$rhs_scale);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs `scales` $lhs_scale `,` $rhs_scale attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // SHALE_NN_QUANTIZE_TD
