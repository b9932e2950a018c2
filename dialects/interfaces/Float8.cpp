//===- Float8.cpp - 8-bit floats ------------------------------------------===//
#include "dialects/interfaces/Float8.h"
#include "dialects/interfaces/ElementEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace shale;

static double largestOf(Type narrow) {
  return APFloat::getLargest(cast<FloatType>(narrow).getFloatSemantics()).convertToDouble();
}

Value shale::narrowTo8Bits(OpBuilder &b, Location loc, Value value, Type narrow) {
  Value low = constantLike(b, loc, value.getType(), -largestOf(narrow));
  Value high = constantLike(b, loc, value.getType(), largestOf(narrow));
  value = arith::MaximumFOp::create(b, loc, value, low);
  value = arith::MinimumFOp::create(b, loc, value, high);
  return arith::TruncFOp::create(b, loc, likeShape(value, narrow), value);
}

Value shale::withoutLimits(Value operand, Type narrow) {
  auto isLimit = [&](Value value, double limit) {
    APFloat constant(0.0f);
    return matchPattern(value, m_ConstantFloat(&constant)) && constant.convertToDouble() == limit;
  };
  auto low = operand.getDefiningOp<arith::MinimumFOp>();
  auto high = low ? low.getLhs().getDefiningOp<arith::MaximumFOp>() : arith::MaximumFOp();
  return high && isLimit(low.getRhs(), largestOf(narrow)) &&
                 isLimit(high.getRhs(), -largestOf(narrow))
             ? high.getLhs()
             : operand;
}

// The bits of a positive number grow with it in f32 as in 8-bit floats. The exponents differ by a
// constant; the fraction is cut, which rounds to nearest even after an addition to the bits. Below
// the smallest normal number, an f32 addition rounds: the sum with 2^23 times the distance of
// subnormal numbers has that distance between its neighbours.
Value shale::narrowTo8BitsByIntegers(OpBuilder &b, Location loc, Value value, Type narrow) {
  const llvm::fltSemantics &semantics = cast<FloatType>(narrow).getFloatSemantics();
  double least = APFloat::getSmallestNormalized(semantics).convertToDouble(),
         step = APFloat::getSmallest(semantics).convertToDouble();
  int fraction = APFloat::semanticsPrecision(semantics) - 1, cut = 23 - fraction;
  int64_t bias = 1 - APFloat::semanticsMinExponent(semantics);
  Type f32 = likeShape(value, b.getF32Type()), i32 = likeShape(value, b.getI32Type());
  auto real = [&](double x) { return constantLike(b, loc, f32, x); };
  auto whole = [&](int64_t x) { return constantLike(b, loc, i32, double(x)); };
  auto bitsOf = [&](Value x) -> Value { return arith::BitcastOp::create(b, loc, i32, x); };
  Value bits = bitsOf(value);
  Value sign =
      arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, bits, whole(24)), whole(0x80));
  bits = arith::AndIOp::create(b, loc, bits, whole(0x7fffffff));
  Value isNan = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, bits, whole(0x7f800000));
  Value odd =
      arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, bits, whole(cut)), whole(1));
  Value rounded = arith::AddIOp::create(
      b, loc, bits, whole((int64_t(1) << (cut - 1)) - 1 - ((127 - bias) << 23)));
  rounded = arith::ShRUIOp::create(b, loc, arith::AddIOp::create(b, loc, rounded, odd), whole(cut));
  double magic = step * 0x1p23;
  Value small =
      arith::AddFOp::create(b, loc, arith::BitcastOp::create(b, loc, f32, bits), real(magic));
  small = arith::SubIOp::create(b, loc, bitsOf(small),
                                whole(int64_t(llvm::bit_cast<uint32_t>(float(magic)))));
  Value isSmall = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, bits,
                                        whole(int64_t(llvm::bit_cast<uint32_t>(float(least)))));
  Value result = arith::SelectOp::create(b, loc, isSmall, small, rounded);
  result = arith::SelectOp::create(b, loc, isNan, whole(0x7f), result);
  result = arith::OrIOp::create(b, loc, result, sign);
  result = arith::TruncIOp::create(b, loc, likeShape(value, b.getI8Type()), result);
  return arith::BitcastOp::create(b, loc, likeShape(value, narrow), result);
}
