//===- Epilogue.cpp - Matmuls with an epilogue, in simpler ops ------------===//
#include "dialects/nn/Ops/Epilogue.h"
#include "dialects/nn/Decompose/Composer.h"
#include "dialects/nn/Ops/Elementwise.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

/// Returns the gradient of GELU's operand x if that of the result is `grad`, as autodiff builds it.
static Value geluGradient(OpBuilder &b, Location loc, Value x, Value grad) {
  auto gelu = GeluOp::create(b, loc, x.getType(), x, /*approximate=*/true);
  SmallVector<Value> gradients(1);
  (void)gelu.buildGradient(b, {grad}, {true}, gradients);
  gelu.erase();
  return gradients[0];
}

SmallVector<Value> MatmulEpilogueOp::buildEpilogue(OpBuilder &b, Value matmul, Value with) {
  Composer c(b, *this);
  Type narrow = Composer::elementOf(matmul);
  Type wide = is16BitFloat(narrow) ? b.getF32Type() : narrow;
  Value p = c.cast(matmul, wide);
  if (getEpilogue() == Epilogue::GeluGrad)
    return {c.cast(geluGradient(b, getLoc(), c.cast(with, wide), p), narrow)};
  Value sum = c.cast(c.add(p, c.cast(c.alongColumns(with, matmul), wide)), narrow);
  if (getEpilogue() == Epilogue::Bias)
    return {sum};
  Value x = c.cast(sum, wide);
  Value y = c.cast(GeluOp::create(b, getLoc(), x.getType(), x, /*approximate=*/true), narrow);
  return getBefore() ? SmallVector<Value>{y, sum} : SmallVector<Value>{y};
}

SmallVector<Value> MatmulEpilogueOp::decompose(OpBuilder &b) {
  Value matmul =
      Composer(b, *this).matmul(getLhs(), getRhs(), getTransposeLhs(), getTransposeRhs());
  SmallVector<Value> results = buildEpilogue(b, matmul, getWith());
  for (Operation *made = matmul.getDefiningOp(); made != getOperation(); made = made->getNextNode())
    made->setDiscardableAttrs((*this)->getDiscardableAttrDictionary());
  return results;
}
