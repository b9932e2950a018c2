//===- Matmul.cpp - Gradients of matmuls ----------------------------------===//
#include "dialects/nn/Ops/Matmul.h"

using namespace mlir;
using namespace shale::nn;

// With Y = A B: dA = dY B^T and dB = A^T dY. Where an operand is stored
// transposed so is its gradient, (dA)^T = B dY^T and (dB)^T = dY^T A, which the
// flags express: no transpose is ever inserted. If operands are rounded to 8-bit floats, so are
// those of the gradients: dY to e5m2, which has the range of gradients, A and B to e4m3.
LogicalResult MatmulOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                      ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGrads) {
  Value g = resultGrads[0], a = getLhs(), c = getRhs();
  bool ta = getTransposeLhs(), tb = getTransposeRhs();
  auto matmul = [&](Value like, Value lhs, Value rhs, bool transposeLhs,
                    bool transposeRhs) -> Value {
    ArrayAttr quantized;
    if (getQuantizedAttr()) {
      Type wide = builder.getType<Float8E5M2Type>(), fine = builder.getType<Float8E4M3FNType>();
      quantized = builder.getTypeArrayAttr({lhs == g ? wide : fine, rhs == g ? wide : fine});
    }
    return MatmulOp::create(builder, getLoc(), like.getType(), lhs, rhs, transposeLhs, transposeRhs,
                            quantized);
  };
  if (wanted[0])
    operandGrads[0] = ta ? matmul(a, c, g, tb, true) : matmul(a, g, c, false, !tb);
  if (wanted[1])
    operandGrads[1] = tb ? matmul(c, g, a, true, ta) : matmul(c, a, g, !ta, false);
  return success();
}
