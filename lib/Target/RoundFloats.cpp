//===- RoundFloats.cpp - f32 to fewer bits by integer arithmetic ----------===//
#include "lib/Target/RoundFloats.h"
#include "dialects/interfaces/Float8.h"
#include "dialects/interfaces/Interfaces.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

/// Rounds a scalar or vector of f32. A NaN stays a NaN, whatever its low bits are.
static Value round(OpBuilder &b, Location loc, Value value, Type narrow) {
  Type word = shale::likeShape(value, b.getI32Type());
  auto number = [&](double constant) { return shale::constantLike(b, loc, word, constant); };
  Value bits = arith::BitcastOp::create(b, loc, word, value);
  Value odd =
      arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, bits, number(16)), number(1));
  Value rounded =
      arith::AddIOp::create(b, loc, bits, arith::AddIOp::create(b, loc, odd, number(0x7fff)));
  Value quiet = arith::OrIOp::create(b, loc, bits, number(0x400000));
  Value isNan = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, value, value);
  rounded = arith::SelectOp::create(b, loc, isNan, quiet, rounded);
  rounded = arith::ShRUIOp::create(b, loc, rounded, number(16));
  rounded = arith::TruncIOp::create(b, loc, shale::likeShape(value, b.getI16Type()), rounded);
  return arith::BitcastOp::create(b, loc, narrow, rounded);
}

void shale::roundByIntegers(Operation *root) {
  root->walk([](arith::TruncFOp op) {
    Type narrow = getElementTypeOrSelf(op.getType());
    if ((!narrow.isBF16() && !is8BitFloat(narrow)) ||
        !getElementTypeOrSelf(op.getIn().getType()).isF32())
      return;
    OpBuilder b(op);
    op.replaceAllUsesWith(narrow.isBF16()
                              ? round(b, op.getLoc(), op.getIn(), op.getType())
                              : narrowTo8BitsByIntegers(b, op.getLoc(), op.getIn(), narrow));
    op.erase();
  });
}
