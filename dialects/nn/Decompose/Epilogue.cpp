//===- Epilogue.cpp - Products with an epilogue, in simpler ops -----------===//
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

SmallVector<Value> MatmulEpilogueOp::buildEpilogue(OpBuilder &b, Value product, Value with) {
  Composer c(b, *this);
  Type narrow = Composer::elementOf(product);
  Type wide = is16BitFloat(narrow) ? b.getF32Type() : narrow;
  Value p = c.cast(product, wide);
  if (getEpilogue() == Epilogue::GeluGrad)
    return {c.cast(geluGradient(b, getLoc(), c.cast(with, wide), p), narrow)};
  Value sum = c.cast(c.add(p, c.cast(c.alongColumns(with, product), wide)), narrow);
  if (getEpilogue() == Epilogue::Bias)
    return {sum};
  Value x = c.cast(sum, wide);
  Value y = c.cast(GeluOp::create(b, getLoc(), x.getType(), x, /*approximate=*/true), narrow);
  return getBefore() ? SmallVector<Value>{y, sum} : SmallVector<Value>{y};
}

SmallVector<Value> MatmulEpilogueOp::decompose(OpBuilder &b) {
  Value product =
      Composer(b, *this).matmul(getLhs(), getRhs(), getTransposeLhs(), getTransposeRhs());
  SmallVector<Value> results = buildEpilogue(b, product, getWith());
  for (Operation *made = product.getDefiningOp(); made != getOperation();
       made = made->getNextNode())
    made->setDiscardableAttrs((*this)->getDiscardableAttrDictionary());
  return results;
}
