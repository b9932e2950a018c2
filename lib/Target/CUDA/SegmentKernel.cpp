//===- SegmentKernel.cpp - GPU kernels that visit segments ----------------===//
//
// A block computes the elements of a range of the group, the mean of a segment, or the means of 32
// neighbouring rows and columns. Each sum is added up by the threads of a warp or a block, each in
// f64 and in the order of its elements, and then over the threads, so that its bits are fixed. Of a
// slice of the group, ranges of segments are clamped to it.
//
//===----------------------------------------------------------------------===//
#include "lib/Target/CUDA/SegmentKernel.h"
#include "lib/Codegen/SegmentFrame.h"
#include "lib/Target/CUDA/Kernels/Threads.h"
#include "lib/Target/CUDA/ThreadEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

namespace {

constexpr int64_t kWarp = 32, kThreads = 256, kWarps = kThreads / kWarp;
/// Elements of a block that computes elements.
constexpr int64_t kBlockElements = 32768;

class SegmentKernel : public SegmentFrame {
public:
  SegmentKernel(OpBuilder &b, gpu::GPUFuncOp function, Region &body, const SegmentForm &form)
      : SegmentFrame(b, function.getLoc(), body, form, e), e(b, loc), t(b, function) {
    Block *entry = &function.getBody().front();
    start(entry, entry->getArguments());
    thread = t.thread();
  }

private:
  void emitReturn() override { gpu::ReturnOp::create(b, loc); }
  Value emitTable() override { return t.constant("segments", entries.values); }

  // ---- values

  /// Computes in 32 bits if every place fits: a division of 64 bits is a call.
  template <typename Op> Value narrow(Value x, Value y) {
    if (entries.largest + kBlockElements > INT32_MAX)
      return Op::create(b, loc, x, y);
    auto small = [&](Value value) -> Value {
      return arith::IndexCastUIOp::create(b, loc, b.getI32Type(), value);
    };
    return arith::IndexCastUIOp::create(b, loc, b.getIndexType(),
                                        Op::create(b, loc, small(x), small(y)));
  }
  Value div(Value x, Value y) override { return narrow<arith::DivUIOp>(x, y); }
  Value rem(Value x, Value y) { return narrow<arith::RemUIOp>(x, y); }

  // ---- loops

  /// Returns the sum of `term`, an f32, over from, from + step, ... below `to`, added to `before`.
  Value sum(Value from, Value to, int64_t step, Value before,
            llvm::function_ref<Value(Value at)> term) {
    return loop(from, to, step, before, [&](Value at, ValueRange current) -> Values {
      Value wide = arith::ExtFOp::create(b, loc, b.getF64Type(), term(at));
      return {plus(current[0], wide)};
    })[0];
  }

  // ---- segments

  /// Returns the last segment whose rows and columns begin at or before `at`.
  Segment segmentOfFactor(Value at) {
    Value found = index(0);
    for (int64_t step = llvm::bit_floor(uint64_t(std::max<int64_t>(1, entries.entries))); step > 0;
         step /= 2) {
      Value next = add(found, index(step));
      Value safe = min(next, index(std::max<int64_t>(0, entries.entries - 1)));
      Value begins = field(safe, SegmentTable::At);
      Value before = both(less(next, index(entries.entries)), less(begins, add(at, index(1))));
      found = select(before, next, found);
    }
    return segment(found);
  }

  Value pieceSize(const Segment &s) override { return atLeastOne(mul(s.rows, s.columns)); }
  void enterPiece(const Segment &s, Value matrix, Value begins) override {
    Value rowsAt = add(s.at, mul(matrix, s.rows)), columns = atLeastOne(s.columns);
    Value columnsAt = add(add(s.at, mul(s.matrices, s.rows)), mul(matrix, s.columns));
    prepare = [=](Value at) {
      Value inside = sub(at, begins);
      place.row = dim(add(rowsAt, div(inside, columns)));
      place.column = dim(add(columnsAt, rem(inside, columns)));
    };
  }
  void enterVector(const Segment &s, Value first) override {
    prepare = [this, start = s.at, first](Value at) {
      place.row = dim(add(start, sub(at, first)));
    };
  }
  void enterGap() override {
    prepare = [](Value) {};
  }

  Value element(Value value, const LinearIndex &at) override {
    if (Value found = emitElement(value, at))
      return found;
    Type type = cast<RankedTensorType>(value.getType()).getElementType();
    return constantLike(b, loc, type, 0);
  }

  // ---- means

  Value sumWarp(Value value);
  Value sumBlock(Value value);

  void emitSegmentMeans() override {
    if (entries.entries == 0)
      return;
    Segment s = segment(t.block());
    Value own = forParts(s, index(0), index(form.count), noSum(),
                         [&](Value from, Value to, ValueRange before) -> Values {
                           return {sum(add(from, thread), to, kThreads, before[0], [&](Value at) {
                             prepare(at);
                             return term(dim(at));
                           })};
                         })[0];
    Value total = sumBlock(own);
    t.when(less(thread, index(1)),
           [&] { t.store(mean(total, atLeastOne(s.count)), outputs[0], s.number); });
  }

  /// The mean of a row or column: the elements start + i * stride of the slice, for i from `from`
  /// to `to`; of `all` numbers i in the whole group.
  struct Mean {
    Value isRow, start, stride, from, to, all;
  };
  Mean meanOf(Value at);
  void emitFactorMeans() override;

  // ---- elements

  void emitElements() override {
    Value begin = mul(t.block(), index(kBlockElements));
    Value end = min(add(begin, index(kBlockElements)), index(form.count));
    loop(index(0), index(entries.entries), 1, {}, [&](Value entry, ValueRange) {
      return forParts(segment(entry), begin, end, {}, [&](Value from, Value to, ValueRange) {
        return loop(add(from, thread), to, kThreads, {}, [&](Value at, ValueRange) -> Values {
          prepare(at);
          storeElements(dim(at));
          return {};
        });
      });
    });
  }

  ThreadEmitter e;
  Threads t;
  Value thread;
  /// Sets `place` for an element of the part that is visited.
  std::function<void(Value at)> prepare = [](Value) {};
};

/// Returns the sum of a value over the lanes of a warp.
Value SegmentKernel::sumWarp(Value value) {
  Type i32 = b.getI32Type(), i64 = b.getI64Type();
  Value half = arith::ConstantIntOp::create(b, loc, i64, 32);
  for (int64_t distance = kWarp / 2; distance > 0; distance /= 2) {
    auto exchange = [&](Value word) -> Value {
      Value got = gpu::ShuffleOp::create(b, loc, arith::TruncIOp::create(b, loc, i32, word),
                                         distance, kWarp, gpu::ShuffleMode::XOR)
                      .getShuffleResult();
      return arith::ExtUIOp::create(b, loc, i64, got);
    };
    Value raw = arith::BitcastOp::create(b, loc, i64, value);
    Value low = exchange(raw), high = exchange(arith::ShRUIOp::create(b, loc, raw, half));
    raw = arith::OrIOp::create(b, loc, low, arith::ShLIOp::create(b, loc, high, half));
    value = plus(value, arith::BitcastOp::create(b, loc, b.getF64Type(), raw));
  }
  return value;
}

/// Returns the sum of a value over the threads of the block, all of which call it.
Value SegmentKernel::sumBlock(Value value) {
  constexpr int64_t first = 16, each = kThreads / first;
  Value parts = t.shared(kThreads, b.getF64Type()), totals = t.shared(first, b.getF64Type());
  auto total = [&](Value memref, Value from, int64_t count) {
    Value sum = t.load(memref, from);
    for (int64_t i = 1; i < count; ++i)
      sum = plus(sum, t.load(memref, add(from, index(i))));
    return sum;
  };
  t.store(value, parts, thread);
  t.barrier();
  t.when(less(thread, index(first)),
         [&] { t.store(total(parts, mul(thread, index(each)), each), totals, thread); });
  t.barrier();
  return total(totals, index(0), first);
}

SegmentKernel::Mean SegmentKernel::meanOf(Value place) {
  Value size = index(form.count), count = index(form.parts());
  Segment s = segmentOfFactor(place);
  Value matrix = isMatrix(s), at = sub(place, s.at);
  Value columns = atLeastOne(s.columns), rows = mul(s.matrices, s.rows);
  Value isRow = both(matrix, less(at, rows));
  Value number = max(sub(at, rows), index(0)); // of a column
  Value columnStart = add(mul(div(number, columns), mul(s.rows, s.columns)), rem(number, columns));
  Value stride = select(matrix, select(isRow, index(1), columns), index(1));
  Value start = select(matrix, select(isRow, mul(at, s.columns), columnStart), at);
  Value exists = select(matrix, less(number, mul(s.matrices, columns)), less(at, s.count));
  exists = both(exists, less(place, count));
  Value all = select(matrix, select(isRow, s.columns, s.rows), index(1));
  start = add(sub(s.offset, shift), start);
  Value from = ceil(sub(index(0), start), stride);
  Value to = min(all, ceil(sub(size, start), stride));
  return {isRow, start, stride, from, select(exists, to, from), all};
}

/// A block computes 32 neighbours: columns with a lane each and rows in turn by warps, then rows
/// with a warp each.
void SegmentKernel::emitFactorMeans() {
  Value warp = div(thread, index(kWarp)), lane = rem(thread, index(kWarp));
  Value count = index(form.parts()), begin = mul(t.block(), index(kWarp));
  auto total = [&](const Mean &of, Value first, Value to, int64_t step) {
    return sum(add(of.from, first), to, step, noSum(),
               [&](Value i) { return term(dim(add(of.start, mul(i, of.stride)))); });
  };
  auto finish = [&](const Mean &of, Value sum, Value at) {
    t.store(mean(sum, atLeastOne(of.all)), outputs[0], at);
  };
  Value at = add(begin, lane);
  Mean own = meanOf(at);
  Value parts = t.shared(kThreads, b.getF64Type());
  t.store(total(own, warp, select(own.isRow, own.from, own.to), kWarps), parts, thread);
  t.barrier();
  Value isColumn =
      select(own.isRow, less(index(1), index(0)), both(less(warp, index(1)), less(at, count)));
  t.when(isColumn, [&] {
    Value sum = t.load(parts, lane);
    for (int64_t i = 1; i < kWarps; ++i)
      sum = plus(sum, t.load(parts, add(lane, index(i * kWarp))));
    finish(own, sum, at);
  });
  loop(warp, index(kWarp), kWarps, {}, [&](Value i, ValueRange) -> Values {
    Value row = add(begin, i);
    Mean of = meanOf(row);
    Value sum = sumWarp(total(of, lane, select(of.isRow, of.to, of.from), kWarp));
    Value stores = both(both(of.isRow, less(row, count)), less(lane, index(1)));
    t.when(stores, [&] { finish(of, sum, row); });
    return {};
  });
}

} // namespace

Launch cuda::launchOf(const SegmentForm &form) {
  int64_t perBlock = form.kind == SegmentForm::Elements       ? kBlockElements
                     : form.kind == SegmentForm::SegmentMeans ? 1
                                                              : kWarp;
  return {std::max<int64_t>(1, llvm::divideCeil(form.parts(), perBlock)), kThreads};
}

LogicalResult cuda::emitSegments(OpBuilder &b, gpu::GPUFuncOp function, Region &body,
                                 const SegmentForm &form) {
  if (SegmentKernel(b, function, body, form).run())
    return success();
  return body.getParentOp()->emitError() << "no schedule found for this kernel over segments";
}
