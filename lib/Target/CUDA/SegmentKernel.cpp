//===- SegmentKernel.cpp - GPU kernels that visit segments ----------------===//
//
// A block computes the elements of a range of the group, the mean of a segment, or the means of 32
// neighbouring rows and columns. Each sum is added up by the threads of a warp or a block, each in
// f64 and in the order of its elements, and then over the threads, so that its bits are fixed. Of a
// slice of the group, ranges of segments are clamped to it.
//
//===----------------------------------------------------------------------===//
#include "lib/Target/CUDA/SegmentKernel.h"
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
/// Size of dimensions whose size is not known. They are never divided or compared.
constexpr int64_t kUnknown = INT32_MAX;

class SegmentKernel {
public:
  SegmentKernel(OpBuilder &b, gpu::GPUFuncOp function, Region &body, const SegmentForm &form)
      : b(b), loc(function.getLoc()), form(form), entries(form),
        yield(body.front().getTerminator()), e(b, loc), t(b, function) {
    Block *entry = &function.getBody().front();
    auto arguments = ValueRange(function.getBody().getArguments());
    unsigned inputs = body.front().getNumArguments();
    for (auto [argument, memref] : llvm::zip(body.front().getArguments(), arguments))
      e.bind(argument, memref);
    outputs = arguments.slice(inputs, yield->getNumOperands());
    e.setSpecial([this](Operation *op, const LinearIndex &) -> std::optional<Value> {
      if (auto broadcast = dyn_cast<nn::SegmentBroadcastOp>(op))
        return emitAtPlace(broadcast, e, place);
      return std::nullopt;
    });
    e.pushScope(entry);
    table = t.constant("segments", entries.values);
    thread = t.thread();
    shift = t.index(0);
    if (form.offset)
      if (Value first = e.emit(form.offset, LinearIndex()))
        shift = arith::IndexCastOp::create(b, loc, b.getIndexType(), first);
  }

  /// Returns false if an op of the kernel cannot be emitted.
  bool run() {
    switch (form.kind) {
    case SegmentForm::Elements:
      emitElements();
      break;
    case SegmentForm::SegmentMeans:
      emitSegmentMean();
      break;
    case SegmentForm::FactorMeans:
      emitFactorMeans();
      break;
    case SegmentForm::None:
      return false;
    }
    e.setInsertion(0);
    gpu::ReturnOp::create(b, loc);
    return works;
  }

private:
  using Values = SmallVector<Value>;

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
  // Both operands are not negative.
  Value div(Value x, Value y) { return narrow<arith::DivUIOp>(x, y); }
  Value rem(Value x, Value y) { return narrow<arith::RemUIOp>(x, y); }
  Value atLeast(Value x, Value y) { return arith::MaxSIOp::create(b, loc, x, y); }
  Value atLeastOne(Value x) { return atLeast(x, t.index(1)); }
  Value clamp(Value x, Value low, Value high) { return atLeast(low, t.min(high, x)); }
  /// Returns x / size rounded up or down; 0 if x is negative.
  Value ceil(Value x, Value size) {
    return div(t.add(atLeast(x, t.index(0)), t.sub(size, t.index(1))), size);
  }
  Value floor(Value x, Value size) { return div(atLeast(x, t.index(0)), size); }

  Value zero() { return arith::ConstantOp::create(b, loc, b.getF64FloatAttr(0)); }
  Value plus(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value toReal(Value index) {
    Value number = arith::IndexCastOp::create(b, loc, b.getI64Type(), index);
    return arith::SIToFPOp::create(b, loc, b.getF32Type(), number);
  }
  /// Returns a sum in f64 divided by a count, an index, as f32.
  Value mean(Value sum, Value count) {
    Value total = arith::TruncFOp::create(b, loc, b.getF32Type(), sum);
    return arith::DivFOp::create(b, loc, total, toReal(count));
  }
  LinearIndex dim(Value value) { return e.addDim(kUnknown, value, DimOrigin::Other, 0); }

  // ---- loops

  /// Emits a loop that carries values. `body` returns the next ones.
  Values loop(Value lower, Value upper, int64_t step, ValueRange carried,
              llvm::function_ref<Values(Value at, ValueRange carried)> body) {
    scf::ForOp op = e.openLoop(lower, upper, step, carried);
    e.setInsertion(e.depth());
    Values next = body(op.getInductionVar(), op.getRegionIterArgs());
    e.setInsertion(e.depth());
    return llvm::to_vector_of<Value>(e.closeLoop(op, next));
  }
  /// Returns the sum of `term`, an f32, over from, from + step, ... below `to`, added to `before`.
  Value sum(Value from, Value to, int64_t step, Value before,
            llvm::function_ref<Value(Value at)> term) {
    return loop(from, to, step, before, [&](Value at, ValueRange current) -> Values {
      Value wide = arith::ExtFOp::create(b, loc, b.getF64Type(), term(at));
      return {plus(current[0], wide)};
    })[0];
  }

  // ---- segments

  struct Segment {
    Value offset, count, at, matrices, rows, columns, number;
  };
  Value field(Value entry, int64_t i) {
    return t.loadIndex(table, t.add(t.mul(entry, t.index(SegmentTable::kFields)), t.index(i)));
  }
  Segment segment(Value entry) {
    return {field(entry, SegmentTable::Offset), field(entry, SegmentTable::Count),
            field(entry, SegmentTable::At),     field(entry, SegmentTable::Matrices),
            field(entry, SegmentTable::Rows),   field(entry, SegmentTable::Columns),
            field(entry, SegmentTable::Number)};
  }
  /// Returns the last segment whose rows and columns begin at or before `at`.
  Segment segmentOfFactor(Value at) {
    Value found = t.index(0);
    for (int64_t step = llvm::bit_floor(uint64_t(std::max<int64_t>(1, entries.entries))); step > 0;
         step /= 2) {
      Value next = t.add(found, t.index(step));
      Value safe = t.min(next, t.index(std::max<int64_t>(0, entries.entries - 1)));
      Value begins = field(safe, SegmentTable::At);
      Value before =
          t.both(t.less(next, t.index(entries.entries)), t.less(begins, t.add(at, t.index(1))));
      found = t.select(before, next, found);
    }
    return segment(found);
  }
  Value isMatrix(const Segment &s) { return t.less(t.index(0), s.columns); }

  /// Emits `body` for the parts of a segment or gap in which the elements [from, to) of the slice
  /// lie, one after another: matrices, or the whole. `prepare` sets `place` for an element.
  using Prepare = llvm::function_ref<void(Value at)>;
  using Part =
      llvm::function_ref<Values(Value lower, Value upper, ValueRange carried, Prepare prepare)>;
  Values forParts(const Segment &s, Value from, Value to, ValueRange carried, Part body) {
    Value first = t.sub(s.offset, shift);
    Value low = clamp(first, from, to), high = clamp(t.add(first, s.count), from, to);
    place = {SegmentPlace::Vector, dim(s.number), {}, {}};
    if (!form.byRow)
      return body(low, high, carried, [](Value) {});
    Value size = atLeastOne(t.mul(s.rows, s.columns)), columns = atLeastOne(s.columns);
    Value top = floor(t.sub(low, first), size);
    Value some = t.both(isMatrix(s), t.less(low, high));
    Value bottom = t.select(some, ceil(t.sub(high, first), size), top);
    Values values = loop(top, bottom, 1, carried, [&](Value matrix, ValueRange current) {
      Value rowsAt = t.add(s.at, t.mul(matrix, s.rows));
      Value columnsAt = t.add(t.add(s.at, t.mul(s.matrices, s.rows)), t.mul(matrix, s.columns));
      Value begins = t.add(first, t.mul(matrix, size));
      place.kind = SegmentPlace::Matrix;
      return body(atLeast(low, begins), t.min(high, t.add(begins, size)), current, [&](Value at) {
        Value inside = t.sub(at, begins);
        place.row = dim(t.add(rowsAt, div(inside, columns)));
        place.column = dim(t.add(columnsAt, rem(inside, columns)));
      });
    });
    place.kind = SegmentPlace::Vector;
    Value isVector = t.both(t.less(s.columns, t.index(1)), t.less(t.index(-1), s.columns));
    values = body(low, t.select(isVector, high, low), values,
                  [&](Value at) { place.row = dim(t.add(s.at, t.sub(at, first))); });
    if (form.kind != SegmentForm::Elements)
      return values;
    place.kind = SegmentPlace::Outside;
    return body(low, t.select(t.less(s.columns, t.index(0)), high, low), values, [](Value) {});
  }

  Value element(Value value, const LinearIndex &at) {
    Value found = e.emit(value, at);
    e.setInsertion(e.depth());
    works &= bool(found);
    if (found)
      return found;
    Type type = cast<RankedTensorType>(value.getType()).getElementType();
    return constantLike(b, loc, type, 0);
  }

  // ---- means

  /// Emits what is added up for an element of the slice.
  Value term(Value at) {
    nn::SegmentMeansOp means = form.means;
    Value x = element(means.getInput(), dim(at));
    return means.getSquares() ? Value(arith::MulFOp::create(b, loc, x, x)) : x;
  }

  Value sumWarp(Value value);
  Value sumBlock(Value value);

  void emitSegmentMean() {
    if (entries.entries == 0)
      return;
    Segment s = segment(t.block());
    Value own = forParts(s, t.index(0), t.index(form.count), zero(),
                         [&](Value from, Value to, ValueRange before, Prepare prepare) -> Values {
                           return {sum(t.add(from, thread), to, kThreads, before[0], [&](Value at) {
                             prepare(at);
                             return term(at);
                           })};
                         })[0];
    Value total = sumBlock(own);
    t.when(t.less(thread, t.index(1)),
           [&] { t.store(mean(total, atLeastOne(s.count)), outputs[0], s.number); });
  }

  /// The mean of a row or column: the elements start + i * stride of the slice, for i from `from`
  /// to `to`; of `all` numbers i in the whole group.
  struct Mean {
    Value isRow, start, stride, from, to, all;
  };
  Mean meanOf(Value at);
  void emitFactorMeans();

  // ---- elements

  void emitElements() {
    Value begin = t.mul(t.block(), t.index(kBlockElements));
    Value end = t.min(t.add(begin, t.index(kBlockElements)), t.index(form.count));
    loop(t.index(0), t.index(entries.entries), 1, {}, [&](Value entry, ValueRange) {
      return forParts(
          segment(entry), begin, end, {}, [&](Value from, Value to, ValueRange, Prepare prepare) {
            return loop(t.add(from, thread), to, kThreads, {}, [&](Value at, ValueRange) -> Values {
              prepare(at);
              store(dim(at));
              return {};
            });
          });
    });
  }
  void store(const LinearIndex &at) {
    SmallVector<NestEmitter::Output> made;
    for (auto [output, memref] : llvm::zip(yield->getOperands(), outputs))
      made.push_back({memref, at, element(output, at)});
    if (works)
      e.storeOutputs(made);
  }

  OpBuilder &b;
  Location loc;
  const SegmentForm &form;
  SegmentTable entries;
  Operation *yield;
  ThreadEmitter e;
  Threads t;
  SmallVector<Value> outputs;
  Value table, thread, shift;
  SegmentPlace place;
  bool works = true;
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
  auto add = [&](Value memref, Value from, int64_t count) {
    Value sum = t.load(memref, from);
    for (int64_t i = 1; i < count; ++i)
      sum = plus(sum, t.load(memref, t.add(from, t.index(i))));
    return sum;
  };
  t.store(value, parts, thread);
  t.barrier();
  t.when(t.less(thread, t.index(first)),
         [&] { t.store(add(parts, t.mul(thread, t.index(each)), each), totals, thread); });
  t.barrier();
  return add(totals, t.index(0), first);
}

SegmentKernel::Mean SegmentKernel::meanOf(Value place) {
  Value size = t.index(form.count), count = t.index(form.parts());
  Segment s = segmentOfFactor(place);
  Value matrix = isMatrix(s), at = t.sub(place, s.at);
  Value columns = atLeastOne(s.columns), rows = t.mul(s.matrices, s.rows);
  Value isRow = t.both(matrix, t.less(at, rows));
  Value number = atLeast(t.sub(at, rows), t.index(0)); // of a column
  Value columnStart =
      t.add(t.mul(div(number, columns), t.mul(s.rows, s.columns)), rem(number, columns));
  Value stride = t.select(matrix, t.select(isRow, t.index(1), columns), t.index(1));
  Value start = t.select(matrix, t.select(isRow, t.mul(at, s.columns), columnStart), at);
  Value exists = t.select(matrix, t.less(number, t.mul(s.matrices, columns)), t.less(at, s.count));
  exists = t.both(exists, t.less(place, count));
  Value all = t.select(matrix, t.select(isRow, s.columns, s.rows), t.index(1));
  start = t.add(t.sub(s.offset, shift), start);
  Value from = ceil(t.sub(t.index(0), start), stride);
  Value to = t.min(all, ceil(t.sub(size, start), stride));
  return {isRow, start, stride, from, t.select(exists, to, from), all};
}

/// A block computes 32 neighbours: columns with a lane each and rows in turn by warps, then rows
/// with a warp each.
void SegmentKernel::emitFactorMeans() {
  Value warp = div(thread, t.index(kWarp)), lane = rem(thread, t.index(kWarp));
  Value count = t.index(form.parts()), begin = t.mul(t.block(), t.index(kWarp));
  auto total = [&](const Mean &of, Value first, Value to, int64_t step) {
    return sum(t.add(of.from, first), to, step, zero(),
               [&](Value i) { return term(t.add(of.start, t.mul(i, of.stride))); });
  };
  auto finish = [&](const Mean &of, Value sum, Value at) {
    t.store(mean(sum, atLeastOne(of.all)), outputs[0], at);
  };
  Value at = t.add(begin, lane);
  Mean own = meanOf(at);
  Value parts = t.shared(kThreads, b.getF64Type());
  t.store(total(own, warp, t.select(own.isRow, own.from, own.to), kWarps), parts, thread);
  t.barrier();
  Value isColumn = t.select(own.isRow, t.less(t.index(1), t.index(0)),
                            t.both(t.less(warp, t.index(1)), t.less(at, count)));
  t.when(isColumn, [&] {
    Value sum = t.load(parts, lane);
    for (int64_t i = 1; i < kWarps; ++i)
      sum = plus(sum, t.load(parts, t.add(lane, t.index(i * kWarp))));
    finish(own, sum, at);
  });
  loop(warp, t.index(kWarp), kWarps, {}, [&](Value i, ValueRange) -> Values {
    Value row = t.add(begin, i);
    Mean of = meanOf(row);
    Value sum = sumWarp(total(of, lane, t.select(of.isRow, of.to, of.from), kWarp));
    Value stores = t.both(t.both(of.isRow, t.less(row, count)), t.less(lane, t.index(1)));
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
