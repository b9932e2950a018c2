//===- Exponential.cpp - exp without conversions ----------------------------===//
#include "lib/Target/CUDA/Exponential.h"
#include "dialects/interfaces/Interfaces.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace shale;

namespace {

/// 2^0 to 2^g for g in [-0.5, 0.5]: 1 + g P(g). P has the least relative error of its degree
/// (Lawson's iteration), 9.2e-8.
constexpr double kPowers[] = {0.0013264727252599584, 0.00967151278577677, 0.05550733744471292,
                              0.24022242083111794, 0.6931469775976776};
constexpr double kLog2e = 0x1.715476p+0, kLog2eRest = 0x1.4ae0c0p-26;
/// A float of this size has no fraction: adding it rounds to an integer, in the low bits.
constexpr double kRound = 0x1.8p+23;
/// Beyond these 2^n is 0 and infinity.
constexpr double kLeast = -87.8, kMost = 88.8;

/// Builds 2^n 2^g with n = round(x log2(e)) and g = x log2(e) - n. NaN passes through P.
Value exponential(OpBuilder &b, Location loc, Value x) {
  Type type = x.getType();
  auto number = [&](double value) { return constantLike(b, loc, type, value); };
  auto fma = [&](Value factor, Value other, Value summand) -> Value {
    return math::FmaOp::create(b, loc, factor, other, summand);
  };
  x = arith::MaximumFOp::create(b, loc, x, number(kLeast));
  x = arith::MinimumFOp::create(b, loc, x, number(kMost));
  Value shifted = fma(x, number(kLog2e), number(kRound));
  Value n = arith::SubFOp::create(b, loc, shifted, number(kRound));
  Value g = fma(x, number(kLog2e), arith::NegFOp::create(b, loc, n));
  g = fma(x, number(kLog2eRest), g);
  Value power = number(kPowers[0]);
  for (double coefficient : ArrayRef(kPowers).drop_front())
    power = fma(power, g, number(coefficient));
  power = fma(power, g, number(1));
  Type word = likeShape(x, b.getI32Type());
  auto integer = [&](double value) { return constantLike(b, loc, word, value); };
  Value bits = arith::BitcastOp::create(b, loc, word, shifted);
  bits = arith::ShLIOp::create(b, loc, bits, integer(23)); // the bits of kRound but n are lost
  bits = arith::AddIOp::create(b, loc, bits, integer(0x3f800000));
  return arith::MulFOp::create(b, loc, power, arith::BitcastOp::create(b, loc, type, bits));
}

} // namespace

void cuda::expandExponentials(Operation *kernel) {
  kernel->walk([](math::ExpOp op) {
    bool approximate = arith::bitEnumContainsAll(op.getFastmath(), arith::FastMathFlags::afn);
    if (!getElementTypeOrSelf(op.getType()).isF32() || approximate)
      return;
    OpBuilder b(op);
    op.replaceAllUsesWith(exponential(b, op.getLoc(), op.getOperand()));
    op.erase();
  });
}
