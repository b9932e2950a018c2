//===- AcmeDialect.cpp - A dialect outside of Shale -----------------------===//
#include "Acme.h"
#include "dialects/nn/Gradients/Build.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include "AcmeDialect.cpp.inc"

#define GET_OP_CLASSES
#include "AcmeOps.cpp.inc"

using namespace acme;
using namespace mlir;

void AcmeDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "AcmeOps.cpp.inc"
      >();
}

LogicalResult SnakeOp::verify() {
  if (!(getAlpha().convertToDouble() > 0))
    return emitOpError("(C1) needs a positive alpha");
  return success();
}

/// The derivative is 1 + sin(2 alpha x).
LogicalResult SnakeOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                     ArrayRef<bool>, SmallVectorImpl<Value> &operandGrads) {
  shale::nn::Build b{builder, getLoc()};
  Value angle = b.scaled(getInput(), 2 * getAlpha().convertToDouble());
  Value slope = b.shifted(b.unary<shale::nn::SinOp>(angle), 1);
  operandGrads[0] = b.mul(resultGrads[0], slope);
  return success();
}

/// Emits one element of the result for a kernel. `args` are scalars or vectors.
Value SnakeOp::emitElement(OpBuilder &b, Location loc, ValueRange args) {
  Value x = args[0];
  Value alpha = shale::constantLike(b, loc, x.getType(), getAlpha().convertToDouble());
  Value sine = math::SinOp::create(b, loc, arith::MulFOp::create(b, loc, alpha, x));
  Value square = arith::MulFOp::create(b, loc, sine, sine);
  return arith::AddFOp::create(b, loc, x, arith::DivFOp::create(b, loc, square, alpha));
}
