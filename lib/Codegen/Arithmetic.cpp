//===- Arithmetic.cpp - Arithmetic of emitted code ------------------------===//
#include "lib/Codegen/Arithmetic.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace shale;

Value Arithmetic::index(int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }
Value Arithmetic::add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
Value Arithmetic::sub(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }
Value Arithmetic::mul(Value x, Value y) { return arith::MulIOp::create(b, loc, x, y); }
Value Arithmetic::min(Value x, Value y) { return arith::MinSIOp::create(b, loc, x, y); }
Value Arithmetic::max(Value x, Value y) { return arith::MaxSIOp::create(b, loc, x, y); }
Value Arithmetic::both(Value x, Value y) { return arith::AndIOp::create(b, loc, x, y); }
Value Arithmetic::less(Value x, Value y) {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, y);
}
Value Arithmetic::select(Value condition, Value yes, Value no) {
  return arith::SelectOp::create(b, loc, condition, yes, no);
}
/// Whether x is larger than y, where NaN is larger than all numbers.
static Value isAbove(OpBuilder &b, Location loc, Value x, Value y) {
  if (isa<IntegerType>(x.getType()))
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, x, y);
  auto compare = [&](arith::CmpFPredicate predicate, Value left, Value right) {
    return arith::CmpFOp::create(b, loc, predicate, left, right);
  };
  Value onlyX = arith::AndIOp::create(b, loc, compare(arith::CmpFPredicate::UNO, x, x),
                                      compare(arith::CmpFPredicate::ORD, y, y));
  return arith::OrIOp::create(b, loc, compare(arith::CmpFPredicate::OGT, x, y), onlyX);
}

Value Arithmetic::comesBefore(Value x, Value i, Value y, Value j, bool smallest) {
  if (smallest)
    std::swap(x, y);
  Value first = isAbove(b, loc, x, y), second = isAbove(b, loc, y, x);
  Value tie = arith::OrIOp::create(b, loc, first, less(i, j));
  return select(second, first, tie);
}

Value Arithmetic::toIndex(Value number) {
  return arith::IndexCastOp::create(b, loc, b.getIndexType(), number);
}
