//===- SegmentKernel.cpp - CPU loops over segments ------------------------===//
//
// Elements, segments, or rows and columns run in parallel. Means add up blocks of elements in f32,
// lane by lane, and the blocks in f64, in the order of the elements, so that a sum does not depend
// on the number of threads. Of a slice of the group, ranges of segments are clamped to it.
//
//===----------------------------------------------------------------------===//
#include "lib/Target/CPU/SegmentKernel.h"
#include "lib/Codegen/SegmentFrame.h"
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

class SegmentKernel : public SegmentFrame {
public:
  SegmentKernel(OpBuilder &b, func::FuncOp function, Region &body, const SegmentForm &form,
                int64_t lanes)
      : SegmentFrame(b, function.getLoc(), body, form, e), e(b, loc, lanes), l(b, loc, lanes) {
    Block *entry = &function.getBody().front();
    auto arguments = ValueRange(entry->getArguments());
    begin = arguments[arguments.size() - 2];
    end = arguments.back();
    start(entry, arguments.drop_back(2));
  }

private:
  Value divided(Value x, Value y) { return arith::DivFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) override { return l.div(x, y); }
  void emitReturn() override { func::ReturnOp::create(b, loc); }
  Value emitTable() override { return l.constant("segments", entries.values); }

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
    Value size = sub(upper, lower), step = index(lanes);
    Value middle = add(lower, mul(arith::DivSIOp::create(b, loc, size, step), step));
    Values values(carried);
    for (bool masked : {false, true})
      values = loop(masked ? middle : lower, masked ? upper : middle, lanes, values,
                    [&](Value at, ValueRange current) {
                      LinearIndex index = e.addLanes(kUnknown, at, DimOrigin::Other, 0);
                      if (masked)
                        e.setMask(vector::CreateMaskOp::create(b, loc, e.vectorOf(b.getI1Type()),
                                                               Value(sub(upper, at))));
                      Values next = body(index, current);
                      e.setMask(nullptr);
                      e.endLanes();
                      e.nest.setInsertion();
                      return next;
                    });
    return values;
  }

  // ---- segments

  /// Returns `upper` if the condition holds, else `lower`: the end of a loop that runs if it does.
  Value endIf(Value condition, Value lower, Value upper) { return select(condition, upper, lower); }

  Value pieceSize(const Segment &s) override { return atLeastOne(s.columns); }
  void enterPiece(const Segment &s, Value row, Value begins) override {
    Value matrix = div(row, atLeastOne(s.rows));
    Value columnsAt = add(s.at, add(mul(s.matrices, s.rows), mul(matrix, s.columns)));
    place.row = dim(add(s.at, row));
    columnShift = dim(sub(columnsAt, begins));
  }
  void enterVector(const Segment &s, Value first) override { rowShift = dim(sub(s.at, first)); }

  /// Emits an element of the slice as a vector.
  Value element(Value value, const LinearIndex &at) override {
    if (place.kind == SegmentPlace::Vector)
      place.row = at.plus(rowShift);
    place.column = at.plus(columnShift);
    Value found = emitElement(value, at);
    return found ? e.widen(at, found) : l.splat(l.real(0));
  }

  // ---- means

  /// Adds the terms of [from, to) to `total`, an f64.
  Value addTerms(Value from, Value to, Value total) {
    Value zero = l.splat(l.real(0));
    return loop(from, to, kBlock, total, [&](Value at, ValueRange current) -> Values {
      Value stop = min(to, add(at, index(kBlock)));
      Value sums = vectors(at, stop, zero, [&](const LinearIndex &index, ValueRange sum) -> Values {
        Value next = plus(sum[0], term(index));
        return {l.keep(e.currentMask(), next, sum[0])};
      })[0];
      Value part = arith::ExtFOp::create(b, loc, b.getF64Type(), l.sumLanes(sums));
      return {plus(current[0], part)};
    })[0];
  }
  void storeMean(Value total, Value count, Value at) {
    memref::StoreOp::create(b, loc, mean(total, count), outputs[0], at);
  }

  void emitSegmentMeans() override {
    forRange(begin, end, [&](Value number) {
      Segment s = segment(number);
      Value total = forParts(s, index(0), index(form.count), noSum(),
                             [&](Value from, Value to, ValueRange sum) -> Values {
                               return {addTerms(from, to, sum[0])};
                             })[0];
      storeMean(total, atLeastOne(s.count), number);
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

  void emitFactorMeans() override {
    Value zero = index(0), size = index(form.count);
    fill(begin, end, [&](const LinearIndex &) { return l.splat(l.real(0)); });
    forRange(zero, index(entries.entries), [&](Value entry) {
      Segment s = segment(entry);
      Value first = sub(s.offset, shift);
      Value matrices = isMatrix(s);
      place = {SegmentPlace::Vector, dim(s.number), {}, {}};
      Value there = sub(first, s.at); // from a place in the output to one in the slice
      Value low = clamp(max(s.at, sub(zero, there)), begin, end);
      Value high = clamp(min(add(s.at, s.count), sub(size, there)), begin, end);
      LinearIndex toSlice = dim(there);
      fill(low, endIf(matrices, high, low),
           [&](const LinearIndex &at) { return term(at.plus(toSlice)); });

      Value columns = atLeastOne(s.columns);
      Value columnsAt = add(s.at, mul(s.matrices, s.rows));
      Value top = clamp(s.at, begin, end);
      forRange(top, endIf(matrices, top, clamp(columnsAt, begin, end)), [&](Value row) {
        Value start = add(first, mul(sub(row, s.at), columns));
        Value total =
            addTerms(clamp(start, zero, size), clamp(add(start, columns), zero, size), noSum());
        storeMean(total, columns, row);
      });
      Value stop = add(columnsAt, mul(s.matrices, columns));
      low = clamp(columnsAt, begin, end), high = clamp(stop, begin, end);
      Value from = floor(sub(low, columnsAt), columns);
      forRange(from, endIf(matrices, from, ceil(sub(high, columnsAt), columns)),
               [&](Value matrix) { emitColumns(s, first, columnsAt, matrix, low, high); });
    });
  }

  /// Emits the means of the columns of a matrix, of which [low, high) of the output has some: adds
  /// up row by row.
  void emitColumns(const Segment &s, Value first, Value columnsAt, Value matrix, Value low,
                   Value high) {
    Value zero = index(0), size = index(form.count), columns = atLeastOne(s.columns);
    Value own = add(columnsAt, mul(matrix, columns)); // in the output
    Value from = max(low, own), to = min(high, add(own, columns));
    Value begins = add(first, mul(matrix, mul(s.rows, columns)));
    // Rows of which the slice has elements.
    Value top = floor(sub(zero, begins), columns);
    Value bottom = min(s.rows, ceil(sub(size, begins), columns));
    forRange(top, bottom, [&](Value row) {
      Value there = sub(add(begins, mul(row, columns)), own);
      LinearIndex toSlice = dim(there);
      fill(max(from, sub(zero, there)), min(to, sub(size, there)),
           [&](const LinearIndex &at) { return plus(stored(at), term(at.plus(toSlice))); });
    });
    Value count = l.splat(toReal(s.rows));
    fill(from, to, [&](const LinearIndex &at) { return divided(stored(at), count); });
  }

  // ---- elements

  void emitElements() override {
    forRange(index(0), index(entries.entries), [&](Value entry) {
      forParts(segment(entry), begin, end, {}, [&](Value from, Value to, ValueRange) {
        return vectors(from, to, {}, [&](const LinearIndex &at, ValueRange) -> Values {
          storeElements(at);
          return {};
        });
      });
    });
  }

  VectorEmitter e;
  Loops l;
  Value begin, end;
  /// From a place in the slice to that of its row (of a vector: element) or column.
  LinearIndex rowShift, columnShift;
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
