//===- Precise.cpp - Functions that keep digits where others cancel ---------===//
#include "dialects/nn/Emit/Precise.h"
#include "dialects/interfaces/ElementEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace shale;

namespace {

/// Arithmetic on values of one type of f32.
struct Floats {
  OpBuilder &b;
  Location loc;
  Type type;

  Value number(double value) const { return constantLike(b, loc, type, value); }
  Value add(Value x, Value y) const { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) const { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) const { return arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) const { return arith::DivFOp::create(b, loc, x, y); }
  Value neg(Value x) const { return arith::NegFOp::create(b, loc, x); }
  Value exp(Value x) const { return math::ExpOp::create(b, loc, x); }
  Value log(Value x) const { return math::LogOp::create(b, loc, x); }
  /// x y + z, rounded once.
  Value fma(Value x, Value y, Value z) const { return math::FmaOp::create(b, loc, x, y, z); }
  /// A polynomial of x; the coefficient of the highest power comes first.
  Value polynomial(Value x, ArrayRef<double> coefficients) const {
    Value sum = number(coefficients.front());
    for (double coefficient : coefficients.drop_front())
      sum = fma(sum, x, number(coefficient));
    return sum;
  }
  Value selectIf(arith::CmpFPredicate predicate, Value x, Value y, Value yes, Value no) const {
    Value condition = arith::CmpFOp::create(b, loc, predicate, x, y);
    return arith::SelectOp::create(b, loc, condition, yes, no);
  }
};

bool isF32(Value x) { return getElementTypeOrSelf(x.getType()).isF32(); }

constexpr double kLog2e = 0x1.715476p+0;
/// log(2) in two parts: a product of the first with a small integer is exact.
constexpr double kLog2High = 0x1.62e4p-1, kLog2Low = 0x1.7f7d1cp-20;
/// A float of this size has no fraction: adding it rounds to an integer, in the low bits.
constexpr double kRound = 0x1.8p+23;
/// Beyond these the results are -1 and infinity.
constexpr double kLeast = -20, kMost = 89;
/// (exp(r) - 1 - r) / r^2: a relative error of 1.5e-8 of exp(r) - 1 for |r| below log(2) / 2.
constexpr double kRest[] = {1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 1.0 / 2};

/// log(erfc(z) / t) + z^2 by t = 1 / (1 + z / 2), for z from 0 to 16: the polynomial of degree 9
/// with the smallest largest error on t from 0.11 to 1, which is 6.5e-8 (Remez's exchange, in 40
/// digits).
constexpr double kErfc[] = {0.165700199577, -0.793077127609, 1.41845460186,   -1.04068665408,
                            0.20067160527,  -0.145448065726, 0.0834403264669, 0.376693482459,
                            0.999752576095, -1.26550087961};

} // namespace

/// With n = round(x log2(e)) and r = x - n log(2) the result is 2^n (exp(r) - 1) + (2^n - 1). It is
/// computed of 2^(n-1), which is finite where the result is. NaN passes through the polynomial.
Value nn::expm1(OpBuilder &b, Location loc, Value x) {
  if (!isF32(x))
    return math::ExpM1Op::create(b, loc, x);
  Floats f{b, loc, x.getType()};
  x = arith::MaximumFOp::create(b, loc, x, f.number(kLeast));
  x = arith::MinimumFOp::create(b, loc, x, f.number(kMost));
  Value shifted = f.fma(x, f.number(kLog2e), f.number(kRound));
  Value n = f.sub(shifted, f.number(kRound));
  Value r = f.fma(n, f.number(-kLog2High), x);
  r = f.fma(n, f.number(-kLog2Low), r);
  Value power = f.fma(f.mul(r, r), f.polynomial(r, kRest), r);
  Type word = likeShape(x, b.getI32Type());
  auto integer = [&](double value) { return constantLike(b, loc, word, value); };
  Value bits = arith::BitcastOp::create(b, loc, word, shifted);
  bits = arith::ShLIOp::create(b, loc, bits, integer(23)); // the bits of kRound but n are lost
  bits = arith::AddIOp::create(b, loc, bits, integer(0x3f000000));
  Value half = arith::BitcastOp::create(b, loc, x.getType(), bits);
  return f.mul(f.number(2), f.fma(half, power, f.sub(half, f.number(0.5))));
}

/// With u = 1 + x, rounded, the part of x that u has lost is c = x - (u - 1), and
/// log(1 + x) = log(u) + c / u but for terms of c^2.
Value nn::log1p(OpBuilder &b, Location loc, Value x) {
  if (!isF32(x))
    return math::Log1pOp::create(b, loc, x);
  Floats f{b, loc, x.getType()};
  Value u = f.add(x, f.number(1)), kept = f.sub(u, f.number(1)), log = f.log(u);
  Value sum = f.add(log, f.div(f.sub(x, kept), u));
  // Not where x is -1 or infinite: then c / u is NaN.
  return f.selectIf(arith::CmpFPredicate::OEQ, kept, x, log, sum);
}

/// exp(-x^2) is computed of the rounded square, whose error is part of the other exponent.
Value nn::erfc(OpBuilder &b, Location loc, Value x) {
  if (!isF32(x))
    return math::ErfcOp::create(b, loc, x);
  Floats f{b, loc, x.getType()};
  Value z = math::AbsFOp::create(b, loc, x);
  z = arith::MinimumFOp::create(b, loc, z, f.number(16)); // the result is 0 from 10.1 on
  Value t = f.div(f.number(1), f.fma(z, f.number(0.5), f.number(1)));
  Value square = f.mul(z, z), error = f.fma(z, z, f.neg(square));
  Value rest = f.exp(f.sub(f.polynomial(t, kErfc), error));
  Value positive = f.mul(f.mul(t, rest), f.exp(f.neg(square)));
  return f.selectIf(arith::CmpFPredicate::OLT, x, f.number(0), f.sub(f.number(2), positive),
                    positive);
}
