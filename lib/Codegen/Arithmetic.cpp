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
Value Arithmetic::toIndex(Value number) {
  return arith::IndexCastOp::create(b, loc, b.getIndexType(), number);
}
