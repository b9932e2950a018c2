//===- SegmentKernel.cpp - CPU loops over segments ------------------------===//
//
// Elements, segments, or rows and columns run in parallel. Means add up blocks of elements in f32,
// lane by lane, and the blocks in f64, in the order of the elements, so that a sum does not depend
// on the number of threads. Of a slice of the group, ranges of segments are clamped to it.
//
//===----------------------------------------------------------------------===//
#include "lib/Target/CPU/SegmentKernel.h"
#include "lib/Target/CPU/Kernels/Loops.h"
#include "lib/Target/CPU/VectorEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace shale;
using namespace shale::cpu;

namespace {

/// Elements that are added up before their sum is added to the others: a large table has thousands
/// of blocks.
constexpr int64_t kBlock = 1024;
/// Size of dimensions whose size is not known. They are never divided or compared.
constexpr int64_t kUnknown = INT32_MAX;

class SegmentKernel {
public:
  SegmentKernel(OpBuilder &b, func::FuncOp function, Region &body, const SegmentForm &form,
                int64_t lanes)
      : b(b), loc(function.getLoc()), form(form), entries(form),
        yield(body.front().getTerminator()), e(b, loc, lanes), l(b, loc, lanes) {
    Block *entry = &function.getBody().front();
    auto arguments = ValueRange(entry->getArguments());
    for (auto [argument, memref] : llvm::zip(body.front().getArguments(), arguments))
      e.bind(argument, memref);
    outputs = arguments.drop_front(body.front().getNumArguments()).drop_back(2);
    begin = arguments[arguments.size() - 2];
    end = arguments.back();
    e.setSpecial([this](Operation *op, const LinearIndex &) -> std::optional<Value> {
      if (auto broadcast = dyn_cast<nn::SegmentBroadcastOp>(op))
        return emitAtPlace(broadcast, e, place);
      return std::nullopt;
    });
    e.pushScope(entry);
    table = l.constant("segments", entries.values);
    shift = l.index(0);
    if (form.offset)
      if (Value first = e.emit(form.offset, LinearIndex()))
        shift = toIndex(first);
  }

  /// Returns false if an op of the kernel cannot be emitted.
  bool run() {
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
    e.setInsertion(0);
    func::ReturnOp::create(b, loc);
    return works;
  }

private:
  using Values = SmallVector<Value>;

  // ---- values

  Value toIndex(Value number) {
    return arith::IndexCastOp::create(b, loc, b.getIndexType(), number);
  }
  Value toReal(Value index) {
    Value number = arith::IndexCastOp::create(b, loc, b.getI64Type(), index);
    return arith::SIToFPOp::create(b, loc, b.getF32Type(), number);
  }
  Value divided(Value x, Value y) { return arith::DivFOp::create(b, loc, x, y); }
  Value plus(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value clamp(Value x, Value low, Value high) { return l.max(low, l.min(high, x)); }
  /// Returns x / size rounded up; 0 if x is negative.
  Value ceil(Value x, Value size) {
    return l.div(l.add(l.max(x, l.index(0)), l.sub(size, l.index(1))), size);
  }
  /// Returns x / size rounded down; 0 if x is negative.
  Value floor(Value x, Value size) { return l.div(l.max(x, l.index(0)), size); }
  LinearIndex dim(Value value) { return e.addDim(kUnknown, value, DimOrigin::Other, 0); }

  // ---- loops

  /// Emits a loop that carries values. `body` returns the next ones.
  Values loop(Value lower, Value upper, int64_t step, ValueRange carried,
              llvm::function_ref<Values(Value at, ValueRange carried)> body) {
    scf::ForOp op = e.openLoop(lower, upper, step, carried);
    e.setInsertion(e.depth());
    Values next = body(op.getInductionVar(), op.getRegionIterArgs());
    return llvm::to_vector_of<Value>(e.closeLoop(op, next));
  }
  void forRange(Value lower, Value upper, llvm::function_ref<void(Value)> body) {
    loop(lower, upper, 1, {}, [&](Value at, ValueRange) -> Values {
      body(at);
      return {};
    });
  }
  /// Emits loops over [lower, upper) in vectors. The last one, which is partial, has a mask.
  using Body = llvm::function_ref<Values(const LinearIndex &at, ValueRange carried)>;
  Values vectors(Value lower, Value upper, ValueRange carried, Body body) {
    int64_t lanes = e.laneCount();
    Value size = l.sub(upper, lower), step = l.index(lanes);
    Value middle = l.add(lower, l.mul(arith::DivSIOp::create(b, loc, size, step), step));
    Values values(carried);
    for (bool masked : {false, true})
      values = loop(masked ? middle : lower, masked ? upper : middle, lanes, values,
                    [&](Value at, ValueRange current) {
                      LinearIndex index = e.addLanes(kUnknown, at, DimOrigin::Other, 0);
                      if (masked)
                        e.setMask(vector::CreateMaskOp::create(b, loc, e.vectorOf(b.getI1Type()),
                                                               Value(l.sub(upper, at))));
                      Values next = body(index, current);
                      e.setMask(nullptr);
                      e.endLanes();
                      e.setInsertion(e.depth());
                      return next;
                    });
    return values;
  }

  // ---- segments

  struct Segment {
    Value offset, count, at, matrices, rows, columns, number;
  };
  Segment segment(Value entry) {
    auto field = [&](int64_t i) {
      Value at = l.add(l.mul(entry, l.index(SegmentTable::kFields)), l.index(i));
      return toIndex(memref::LoadOp::create(b, loc, table, at));
    };
    return {field(SegmentTable::Offset),   field(SegmentTable::Count), field(SegmentTable::At),
            field(SegmentTable::Matrices), field(SegmentTable::Rows),  field(SegmentTable::Columns),
            field(SegmentTable::Number)};
  }
  Value is(arith::CmpIPredicate predicate, Value x, int64_t y) {
    return arith::CmpIOp::create(b, loc, predicate, x, l.index(y));
  }
  /// Returns `upper` if the condition holds, else `lower`: the end of a loop that runs if it does.
  Value endIf(Value condition, Value lower, Value upper) {
    return arith::SelectOp::create(b, loc, condition, upper, lower);
  }

  /// Emits `body` for the parts of a segment or gap in which the elements [from, to) of the slice
  /// lie, one after another: rows of matrices, or the whole. `place` is set there.
  using Part = llvm::function_ref<Values(Value lower, Value upper, ValueRange carried)>;
  Values forParts(const Segment &s, Value from, Value to, ValueRange carried, Part body) {
    Value first = l.sub(s.offset, shift);
    Value low = clamp(first, from, to), high = clamp(l.add(first, s.count), from, to);
    place = {SegmentPlace::Vector, dim(s.number), {}, {}};
    if (!form.byRow)
      return body(low, high, carried);
    Value columns = l.max(s.columns, l.index(1));
    Value isMatrix = is(arith::CmpIPredicate::sgt, s.columns, 0);
    Value top = floor(l.sub(low, first), columns);
    Value bottom = endIf(isMatrix, top, ceil(l.sub(high, first), columns));
    // An empty range may begin anywhere.
    bottom =
        endIf(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, low, high), top, bottom);
    Values values = loop(top, bottom, 1, carried, [&](Value row, ValueRange current) {
      Value start = l.add(first, l.mul(row, s.columns));
      Value matrix = l.div(row, l.max(s.rows, l.index(1)));
      Value columnsAt = l.add(s.at, l.add(l.mul(s.matrices, s.rows), l.mul(matrix, s.columns)));
      place.kind = SegmentPlace::Matrix;
      place.row = dim(l.add(s.at, row));
      columnShift = dim(l.sub(columnsAt, start));
      return body(l.max(low, start), l.min(high, l.add(start, s.columns)), current);
    });
    place.kind = SegmentPlace::Vector;
    rowShift = dim(l.sub(s.at, first));
    Value isVector = is(arith::CmpIPredicate::eq, s.columns, 0);
    values = body(low, endIf(isVector, low, high), values);
    if (form.kind != SegmentForm::Elements)
      return values;
    place.kind = SegmentPlace::Outside;
    return body(low, endIf(is(arith::CmpIPredicate::slt, s.columns, 0), low, high), values);
  }

  /// Emits an element of the slice as a vector.
  Value element(Value value, const LinearIndex &at) {
    if (place.kind == SegmentPlace::Vector)
      place.row = at.plus(rowShift);
    place.column = at.plus(columnShift);
    Value found = e.emit(value, at);
    e.setInsertion(e.depth());
    works &= bool(found);
    return found ? e.widen(at, found) : l.splat(l.real(0));
  }

  // ---- means

  /// Emits what is added up for an element.
  Value term(const LinearIndex &at) {
    nn::SegmentMeansOp means = form.means;
    Value x = element(means.getInput(), at);
    return means.getSquares() ? Value(arith::MulFOp::create(b, loc, x, x)) : x;
  }
  /// Adds the terms of [from, to) to `total`, an f64.
  Value addTerms(Value from, Value to, Value total) {
    Value zero = l.splat(l.real(0));
    return loop(from, to, kBlock, total, [&](Value at, ValueRange current) -> Values {
      Value stop = l.min(to, l.add(at, l.index(kBlock)));
      Value sums = vectors(at, stop, zero, [&](const LinearIndex &index, ValueRange sum) -> Values {
        Value next = plus(sum[0], term(index));
        return {l.keep(e.currentMask(), next, sum[0])};
      })[0];
      Value part = arith::ExtFOp::create(b, loc, b.getF64Type(), l.sumLanes(sums));
      return {plus(current[0], part)};
    })[0];
  }
  Value none() { return arith::ConstantOp::create(b, loc, b.getF64FloatAttr(0)); }
  void storeMean(Value total, Value count, Value at) {
    Value sum = arith::TruncFOp::create(b, loc, b.getF32Type(), total);
    memref::StoreOp::create(b, loc, divided(sum, toReal(count)), outputs[0], at);
  }

  void emitSegmentMeans() {
    forRange(begin, end, [&](Value number) {
      Segment s = segment(number);
      Value total = forParts(s, l.index(0), l.index(form.count), none(),
                             [&](Value from, Value to, ValueRange sum) -> Values {
                               return {addTerms(from, to, sum[0])};
                             })[0];
      storeMean(total, l.max(s.count, l.index(1)), number);
    });
  }

  /// Stores `value` for each place in [from, to) of the output.
  void fill(Value from, Value to, llvm::function_ref<Value(const LinearIndex &at)> value) {
    vectors(from, to, {}, [&](const LinearIndex &at, ValueRange) -> Values {
      e.storeOutputs({{outputs[0], at, value(at)}});
      return {};
    });
  }
  Value stored(const LinearIndex &at) { return e.loadElement(outputs[0], b.getF32Type(), at); }

  void emitFactorMeans() {
    Value zero = l.index(0), size = l.index(form.count);
    fill(begin, end, [&](const LinearIndex &) { return l.splat(l.real(0)); });
    forRange(zero, l.index(entries.entries), [&](Value entry) {
      Segment s = segment(entry);
      Value first = l.sub(s.offset, shift);
      Value isMatrix = is(arith::CmpIPredicate::sgt, s.columns, 0);
      place = {SegmentPlace::Vector, dim(s.number), {}, {}};
      Value there = l.sub(first, s.at); // from a place in the output to one in the slice
      Value low = clamp(l.max(s.at, l.sub(zero, there)), begin, end);
      Value high = clamp(l.min(l.add(s.at, s.count), l.sub(size, there)), begin, end);
      LinearIndex toSlice = dim(there);
      fill(low, endIf(isMatrix, high, low),
           [&](const LinearIndex &at) { return term(at.plus(toSlice)); });

      Value columns = l.max(s.columns, l.index(1));
      Value columnsAt = l.add(s.at, l.mul(s.matrices, s.rows));
      Value top = clamp(s.at, begin, end);
      forRange(top, endIf(isMatrix, top, clamp(columnsAt, begin, end)), [&](Value row) {
        Value start = l.add(first, l.mul(l.sub(row, s.at), columns));
        Value total =
            addTerms(clamp(start, zero, size), clamp(l.add(start, columns), zero, size), none());
        storeMean(total, columns, row);
      });
      Value stop = l.add(columnsAt, l.mul(s.matrices, columns));
      low = clamp(columnsAt, begin, end), high = clamp(stop, begin, end);
      Value from = floor(l.sub(low, columnsAt), columns);
      forRange(from, endIf(isMatrix, from, ceil(l.sub(high, columnsAt), columns)),
               [&](Value matrix) { emitColumns(s, first, columnsAt, matrix, low, high); });
    });
  }

  /// Emits the means of the columns of a matrix, of which [low, high) of the output has some: adds
  /// up row by row.
  void emitColumns(const Segment &s, Value first, Value columnsAt, Value matrix, Value low,
                   Value high) {
    Value zero = l.index(0), size = l.index(form.count), columns = l.max(s.columns, l.index(1));
    Value own = l.add(columnsAt, l.mul(matrix, columns)); // in the output
    Value from = l.max(low, own), to = l.min(high, l.add(own, columns));
    Value begins = l.add(first, l.mul(matrix, l.mul(s.rows, columns)));
    // Rows of which the slice has elements.
    Value top = floor(l.sub(zero, begins), columns);
    Value bottom = l.min(s.rows, ceil(l.sub(size, begins), columns));
    forRange(top, bottom, [&](Value row) {
      Value there = l.sub(l.add(begins, l.mul(row, columns)), own);
      LinearIndex toSlice = dim(there);
      fill(l.max(from, l.sub(zero, there)), l.min(to, l.sub(size, there)),
           [&](const LinearIndex &at) { return plus(stored(at), term(at.plus(toSlice))); });
    });
    Value count = l.splat(toReal(s.rows));
    fill(from, to, [&](const LinearIndex &at) { return divided(stored(at), count); });
  }

  // ---- elements

  void emitElements() {
    forRange(l.index(0), l.index(entries.entries), [&](Value entry) {
      forParts(segment(entry), begin, end, {}, [&](Value from, Value to, ValueRange) {
        return vectors(from, to, {}, [&](const LinearIndex &at, ValueRange) -> Values {
          SmallVector<NestEmitter::Output> made;
          for (auto [output, memref] : llvm::zip(yield->getOperands(), outputs)) {
            Value value = element(output, at);
            made.push_back({memref, at, value});
          }
          if (works)
            e.storeOutputs(made);
          return {};
        });
      });
    });
  }

  OpBuilder &b;
  Location loc;
  const SegmentForm &form;
  SegmentTable entries;
  Operation *yield;
  VectorEmitter e;
  Loops l;
  ValueRange outputs;
  Value begin, end, table, shift;
  SegmentPlace place;
  /// From a place in the slice to that of its row (of a vector: element) or column.
  LinearIndex rowShift, columnShift;
  bool works = true;
};

} // namespace

FailureOr<KernelInfo> cpu::generateSegments(OpBuilder &b, func::FuncOp function, Region &body,
                                            const SegmentForm &form, int64_t lanes) {
  if (!SegmentKernel(b, function, body, form, lanes).run())
    return body.getParentOp()->emitError() << "no schedule found for this kernel over segments";
  // Below these sizes the cost of a thread exceeds its benefit.
  int64_t grain = form.kind == SegmentForm::Elements       ? 4096
                  : form.kind == SegmentForm::SegmentMeans ? 1
                                                           : 64;
  return KernelInfo{form.parts(), grain, 0};
}
