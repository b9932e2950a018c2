//===- SegmentFrame.cpp - The frame of kernels that visit segments --------===//
#include "lib/Codegen/SegmentFrame.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace shale;

void SegmentFrame::start(Block *entry, ValueRange memory) {
  auto inputs = body.front().getArguments();
  for (auto [argument, memref] : llvm::zip(inputs, memory))
    emitter.bind(argument, memref);
  unsigned count = body.front().getTerminator()->getNumOperands();
  outputs = llvm::to_vector(memory.slice(inputs.size(), count));
  emitter.setSpecial([this](Operation *op, const LinearIndex &) -> std::optional<Value> {
    if (auto broadcast = dyn_cast<nn::SegmentBroadcastOp>(op))
      return emitAtPlace(broadcast, emitter, place);
    return std::nullopt;
  });
  emitter.nest.pushScope(entry);
  table = emitTable();
  shift = index(0);
  if (form.offset)
    if (Value first = emitter.emit(form.offset, LinearIndex()))
      shift = toIndex(first);
}

bool SegmentFrame::run() {
  switch (form.kind) {
  case SegmentForm::Elements:
    emitElements();
    break;
  case SegmentForm::SegmentMeans:
    emitSegmentMeans();
    break;
  case SegmentForm::FactorMeans:
    emitFactorMeans();
    break;
  case SegmentForm::None:
    return false;
  }
  emitter.nest.setInsertion(0);
  emitReturn();
  return works;
}

//===- Values -------------------------------------------------------------===//

Value SegmentFrame::toReal(Value number) {
  Value integer = arith::IndexCastOp::create(b, loc, b.getI64Type(), number);
  return arith::SIToFPOp::create(b, loc, b.getF32Type(), integer);
}
Value SegmentFrame::plus(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
Value SegmentFrame::noSum() { return arith::ConstantOp::create(b, loc, b.getF64FloatAttr(0)); }
Value SegmentFrame::mean(Value sum, Value count) {
  Value total = arith::TruncFOp::create(b, loc, b.getF32Type(), sum);
  return arith::DivFOp::create(b, loc, total, toReal(count));
}
LinearIndex SegmentFrame::dim(Value value) {
  return emitter.addDim(INT32_MAX, value, DimOrigin::Other, 0);
}

//===- Loops and segments -------------------------------------------------===//

SegmentFrame::Values
SegmentFrame::loop(Value lower, Value upper, int64_t step, ValueRange carried,
                   llvm::function_ref<Values(Value at, ValueRange carried)> body) {
  scf::ForOp op = emitter.nest.openLoop(lower, upper, step, carried);
  emitter.nest.setInsertion();
  Values next = body(op.getInductionVar(), op.getRegionIterArgs());
  emitter.nest.setInsertion();
  return llvm::to_vector_of<Value>(emitter.nest.closeLoop(op, next));
}

Value SegmentFrame::field(Value entry, SegmentTable::Field which) {
  Value at = add(mul(entry, index(SegmentTable::kFields)), index(which));
  return toIndex(memref::LoadOp::create(b, loc, table, at));
}

SegmentFrame::Segment SegmentFrame::segment(Value entry) {
  return {field(entry, SegmentTable::Offset), field(entry, SegmentTable::Count),
          field(entry, SegmentTable::At),     field(entry, SegmentTable::Matrices),
          field(entry, SegmentTable::Rows),   field(entry, SegmentTable::Columns),
          field(entry, SegmentTable::Number)};
}

SegmentFrame::Values SegmentFrame::forParts(const Segment &s, Value from, Value to,
                                            ValueRange carried, Part body) {
  Value first = sub(s.offset, shift);
  Value low = clamp(first, from, to), high = clamp(add(first, s.count), from, to);
  place = {SegmentPlace::Vector, dim(s.number), {}, {}};
  if (!form.byRow)
    return body(low, high, carried);
  Value size = pieceSize(s), top = floor(sub(low, first), size);
  // An empty range may begin anywhere.
  Value some = both(isMatrix(s), less(low, high));
  Value bottom = select(some, ceil(sub(high, first), size), top);
  Values values = loop(top, bottom, 1, carried, [&](Value piece, ValueRange current) {
    Value begins = add(first, mul(piece, size));
    place.kind = SegmentPlace::Matrix;
    enterPiece(s, piece, begins);
    return body(max(low, begins), min(high, add(begins, size)), current);
  });
  place.kind = SegmentPlace::Vector;
  enterVector(s, first);
  Value isVector = both(less(s.columns, index(1)), less(index(SegmentTable::kGap), s.columns));
  values = body(low, select(isVector, high, low), values);
  if (form.kind != SegmentForm::Elements)
    return values;
  place.kind = SegmentPlace::Outside;
  enterGap();
  return body(low, select(less(s.columns, index(0)), high, low), values);
}

Value SegmentFrame::emitElement(Value value, const LinearIndex &at) {
  Value found = emitter.emit(value, at);
  emitter.nest.setInsertion();
  works &= bool(found);
  return found;
}

Value SegmentFrame::term(const LinearIndex &at) {
  nn::SegmentMeansOp means = form.means;
  Value x = element(means.getInput(), at);
  return means.getSquares() ? Value(arith::MulFOp::create(b, loc, x, x)) : x;
}

void SegmentFrame::storeElements(const LinearIndex &at) {
  SmallVector<NestEmitter::Output> made;
  for (auto [output, memref] : llvm::zip(body.front().getTerminator()->getOperands(), outputs))
    made.push_back({memref, at, element(output, at)});
  if (works)
    emitter.storeOutputs(made);
}
