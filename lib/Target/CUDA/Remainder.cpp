//===- Remainder.cpp - fmod without a library -----------------------------===//
#include "lib/Target/CUDA/Remainder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;

/// Returns a multiple q y <= x of x >= y > 0, both f64, without rounding: q is x / y with 28 bits,
/// without its fraction.
///
/// y has 24 bits, so q y is exact. If x / y rounds to a number of 28 bits, it is that number: x and
/// its product with y are multiples of a unit above 2^-53 x, so they differ by more than the
/// rounding or not at all.
static Value largeMultiple(ImplicitLocOpBuilder &b, Value x, Value y) {
  constexpr int64_t kMask = ~((int64_t(1) << 25) - 1); // keeps 28 of 53 bits
  Value quotient = arith::DivFOp::create(b, x, y);
  Value bits = arith::BitcastOp::create(b, b.getI64Type(), quotient);
  bits = arith::AndIOp::create(b, bits, arith::ConstantOp::create(b, b.getI64IntegerAttr(kMask)));
  Value shorter = arith::BitcastOp::create(b, x.getType(), bits);
  return arith::MulFOp::create(b, math::FloorOp::create(b, shorter).getResult(), y);
}

/// Returns fmod(x, y) of f32: x - trunc(x / y) y, which is exact, with the sign of x. Subtracts
/// multiples of |y| in f64; each takes at least 25 bits from the quotient.
static Value remainder(ImplicitLocOpBuilder &b, Value x, Value y) {
  Type type = x.getType(), wide = b.getF64Type();
  auto widen = [&](Value value) -> Value {
    Value size = math::AbsFOp::create(b, value);
    return arith::ExtFOp::create(b, TypeRange{wide}, ValueRange{size});
  };
  Value left = widen(x), right = widen(y);
  Value zero = arith::ConstantOp::create(b, b.getF64FloatAttr(0));
  Value infinity = arith::ConstantOp::create(b, b.getF64FloatAttr(INFINITY));
  auto compare = [&](arith::CmpFPredicate predicate, Value of, Value with) -> Value {
    return arith::CmpFOp::create(b, predicate, of, with);
  };
  // NaN, infinite x and y = 0 have no remainder. With infinite y it is x.
  Value defined = arith::AndIOp::create(b, compare(arith::CmpFPredicate::OLT, left, infinity),
                                        compare(arith::CmpFPredicate::OGT, right, zero));
  auto loop = scf::WhileOp::create(
      b, TypeRange{wide}, ValueRange{left},
      [&](OpBuilder &, Location, ValueRange rest) {
        Value more = compare(arith::CmpFPredicate::OGE, rest[0], right);
        scf::ConditionOp::create(b, arith::AndIOp::create(b, defined, more), rest);
      },
      [&](OpBuilder &, Location, ValueRange rest) {
        Value less = arith::SubFOp::create(b, rest[0], largeMultiple(b, rest[0], right));
        scf::YieldOp::create(b, less);
      });
  Value size = arith::TruncFOp::create(b, type, loop.getResult(0)).getResult();
  Value nan = arith::ConstantOp::create(b, b.getFloatAttr(type, NAN));
  Value signedSize = math::CopySignOp::create(b, size, x);
  return arith::SelectOp::create(b, defined, signedSize, nan);
}

void shale::cuda::expandRemainders(Operation *kernel) {
  SmallVector<arith::RemFOp> remainders;
  kernel->walk([&](arith::RemFOp op) { remainders.push_back(op); });
  for (arith::RemFOp op : remainders) {
    ImplicitLocOpBuilder b(op.getLoc(), op);
    op.replaceAllUsesWith(remainder(b, op.getLhs(), op.getRhs()));
    op.erase();
  }
}
