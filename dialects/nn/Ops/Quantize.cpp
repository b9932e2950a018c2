//===- Quantize.cpp - 8-bit floats and their matmuls ----------------------===//
#include "dialects/nn/Ops/Quantize.h"

using namespace mlir;
using namespace shale::nn;

double shale::nn::largestFloat8(Type element) {
  return llvm::APFloat::getLargest(cast<FloatType>(element).getFloatSemantics()).convertToDouble();
}

LogicalResult QuantizedMatmulOp::verify() {
  auto lhs = cast<RankedTensorType>(getLhs().getType());
  auto rhs = cast<RankedTensorType>(getRhs().getType());
  auto result = cast<RankedTensorType>(getType());
  if (lhs.getRank() != 2 || rhs.getRank() != 2 || result.getRank() != 2 ||
      lhs.getDimSize(0) != result.getDimSize(0) || rhs.getDimSize(0) != result.getDimSize(1) ||
      lhs.getDimSize(1) != rhs.getDimSize(1)) // quantized_matmul_c1
    return emitOpError() << "needs lhs [m, k], rhs [n, k] and a result [m, n]; got " << lhs << ", "
                         << rhs << " and " << result;
  Type element = result.getElementType();
  if ((isa<Float8E5M2Type>(lhs.getElementType()) && isa<Float8E5M2Type>(rhs.getElementType())) ||
      (!element.isF32() && !is16BitFloat(element))) // quantized_matmul_c2
    return emitOpError() << "needs at most one operand of f8E5M2, and a result of f32 or of a "
                            "16-bit float; got "
                         << lhs << ", " << rhs << " and " << result;
  return success();
}

int64_t QuantizedMatmulOp::getFlops() {
  return 2 * cast<RankedTensorType>(getLhs().getType()).getDimSize(1) *
         cast<RankedTensorType>(getType()).getNumElements();
}

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Quantize.cpp.inc"

void shale::nn::registerQuantizeOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Quantize.cpp.inc"
      >();
}
