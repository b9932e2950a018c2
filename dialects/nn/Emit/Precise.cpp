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
  Value min(Value x, double y) const { return arith::MinimumFOp::create(b, loc, x, number(y)); }
  Value exp(Value x) const { return math::ExpOp::create(b, loc, x); }
  Value log(Value x) const { return math::LogOp::create(b, loc, x); }
  /// x y + z, rounded once.
  Value fma(Value x, Value y, Value z) const { return math::FmaOp::create(b, loc, x, y, z); }
  /// x^2, rounded, and what the rounding has lost.
  std::pair<Value, Value> square(Value x) const {
    Value rounded = mul(x, x);
    return {rounded, fma(x, x, neg(rounded))};
  }
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
/// The largest z of that polynomial.
constexpr double kMostErfc = 16;
/// exp(z^2) erfc(z) z by 1 / z^2, for larger z: the asymptotic series (DLMF 7.12.1), whose next
/// term is 1.4e-17.
constexpr double kFarErfc[] = {4467.2905882456662,  -595.63874509942218,  91.636730015295726,
                               -16.661223639144676, 3.7024941420321502,   -1.057855469152043,
                               0.42314218766081724, -0.28209479177387814, 0.56418958354775628};

/// pi / 2 in two parts of f64, and its inverse.
constexpr double kQuarterHigh = 0x1.921fb54442d18p+0, kQuarterLow = 0x1.1a62633145c07p-54;
constexpr double kQuarters = 0x1.45f306dc9c883p-1;
/// As kRound, in f64.
constexpr double kRoundWide = 0x1.8p+52;
/// Up to this size the number of quarter turns and the rest are exact enough.
constexpr double kMostAngle = 1e15;
/// (sin(r) - r) / r^3 and (cos(r) - 1 + r^2 / 2) / r^4 by r^2, for |r| below pi / 4: relative
/// errors of sine and cosine of 3e-9 and 4e-9 (the coefficients of Moshier's Cephes library).
constexpr double kSine[] = {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1};
constexpr double kCosine[] = {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2};

/// exp(z^2 + more) erfc(z), for z from 0 to kMostErfc.
Value scaledErfc(const Floats &f, Value z, Value more) {
  Value t = f.div(f.number(1), f.fma(z, f.number(0.5), f.number(1)));
  return f.mul(t, f.exp(f.add(f.polynomial(t, kErfc), more)));
}

/// The sine of x plus `quarters` quarter turns. With n = round(x / (pi / 2)) and r = x - n pi / 2,
/// it is sin(r), cos(r) or minus one of them. x - n kQuarterHigh is exact in f64: both are
/// multiples of 2^-52 as soon as n is not 0, and the difference is below 2.
Value turned(OpBuilder &b, Location loc, Value x, int32_t quarters) {
  Floats f{b, loc, x.getType()}, wide{b, loc, likeShape(x, b.getF64Type())};
  Type word = likeShape(x, b.getI32Type());
  auto integer = [&](int64_t value) { return constantLike(b, loc, word, double(value)); };
  auto bitsOf = [&](Value value) -> Value { return arith::BitcastOp::create(b, loc, word, value); };
  Value angle = arith::ExtFOp::create(b, loc, wide.type, x);
  Value shifted = wide.fma(angle, wide.number(kQuarters), wide.number(kRoundWide));
  Value n = wide.sub(shifted, wide.number(kRoundWide));
  Value rest = wide.fma(n, wide.number(-kQuarterHigh), angle);
  rest = wide.fma(n, wide.number(-kQuarterLow), rest);
  Value r = arith::TruncFOp::create(b, loc, x.getType(), rest);
  Value size = math::AbsFOp::create(b, loc, r), square = f.mul(r, r);
  Value sine = f.fma(f.mul(size, square), f.polynomial(square, kSine), size);
  Value cosine = f.fma(f.mul(square, square), f.polynomial(square, kCosine),
                       f.fma(square, f.number(-0.5), f.number(1)));
  Value long64 = arith::BitcastOp::create(b, loc, likeShape(x, b.getI64Type()), shifted);
  Value turn = arith::TruncIOp::create(b, loc, word, long64);
  turn = arith::AddIOp::create(b, loc, turn, integer(quarters));
  Value odd = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne,
                                    arith::AndIOp::create(b, loc, turn, integer(1)), integer(0));
  // The sine has the sign of r, also of -0. After two quarters the sign is the other one.
  Value sign = arith::SelectOp::create(b, loc, odd, integer(0), bitsOf(r));
  Value turns = arith::ShLIOp::create(b, loc, turn, integer(30));
  sign = arith::AndIOp::create(b, loc, arith::XOrIOp::create(b, loc, sign, turns),
                               integer(std::numeric_limits<int32_t>::min()));
  Value bits = bitsOf(arith::SelectOp::create(b, loc, odd, cosine, sine));
  bits = arith::XOrIOp::create(b, loc, bits, sign);
  Value result = arith::BitcastOp::create(b, loc, x.getType(), bits);
  return f.selectIf(arith::CmpFPredicate::OLE, math::AbsFOp::create(b, loc, x),
                    f.number(kMostAngle), result,
                    f.number(std::numeric_limits<double>::quiet_NaN()));
}

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

Value nn::erfc(OpBuilder &b, Location loc, Value x) {
  if (!isF32(x))
    return math::ErfcOp::create(b, loc, x);
  Floats f{b, loc, x.getType()};
  // The result is 0 from 10.1 on.
  Value z = f.min(math::AbsFOp::create(b, loc, x), kMostErfc);
  auto [square, error] = f.square(z);
  Value positive = f.mul(scaledErfc(f, z, f.neg(error)), f.exp(f.neg(square)));
  return f.selectIf(arith::CmpFPredicate::OLT, x, f.number(0), f.sub(f.number(2), positive),
                    positive);
}

/// For negative x it is 2 exp(x^2) - erfcx(-x).
Value nn::erfcx(OpBuilder &b, Location loc, Value x) {
  Floats f{b, loc, x.getType()};
  Value size = math::AbsFOp::create(b, loc, x), one = f.number(1);
  // exp(x^2) is infinite at the bound, and the error of the square finite.
  auto [square, error] = f.square(f.min(size, isF32(x) ? 10 : 27));
  Value power = f.mul(f.exp(square), f.add(one, error));
  Value z = f.min(size, kMostErfc);
  Value near =
      isF32(x) ? scaledErfc(f, z, f.number(0)) : f.mul(power, math::ErfcOp::create(b, loc, z));
  Value inverse = f.div(one, size);
  Value far = f.mul(inverse, f.polynomial(f.mul(inverse, inverse), kFarErfc));
  Value positive = f.selectIf(arith::CmpFPredicate::OLT, size, f.number(kMostErfc), near, far);
  return f.selectIf(arith::CmpFPredicate::OLT, x, f.number(0),
                    f.sub(f.mul(f.number(2), power), positive), positive);
}

Value nn::sin(OpBuilder &b, Location loc, Value x) {
  return isF32(x) ? turned(b, loc, x, 0) : math::SinOp::create(b, loc, x);
}

Value nn::cos(OpBuilder &b, Location loc, Value x) {
  return isF32(x) ? turned(b, loc, x, 1) : math::CosOp::create(b, loc, x);
}
