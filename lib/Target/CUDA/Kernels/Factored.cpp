//===- Factored.cpp - Updates with factored moments -----------------------===//
//
// Means over rows, columns and segments, and the new parameters of a flat group. Each
// sum is added up by the threads of a warp or a block, each in f64 and in the order of
// its elements, and then over the threads, so that its bits are fixed. A slice of the
// group has a part of the segments: ranges are clamped to it.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Optimizers/Real.h"
#include "lib/Codegen/FactoredTable.h"
#include "lib/Target/CUDA/Kernels/Kernels.h"
#include "lib/Target/CUDA/Kernels/Threads.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;
using namespace shale::nn;

namespace {

constexpr int64_t kWarp = 32, kThreads = 256, kWarps = kThreads / kWarp;
/// Elements per block of new parameters: each block adds up the rows' means of its matrix.
constexpr int64_t kStepElements = 32768;

Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

/// Emits what the kernels of one op share. Counts and places are indices; sums are f64.
class Emitter {
public:
  Emitter(Operation *op, OpBuilder &b, gpu::GPUFuncOp function, ValueRange operands,
          ArrayAttr segments, Value offset)
      : t(b, function), b(b), loc(t.loc), segmentCount(segments.size()) {
    for (auto range : segments.getAsRange<FactoredRangeAttr>())
      places = std::max(places, range.getOffset() + range.getCount());
    for (Value operand : op->getOperands())
      places = std::max(places, elements(operand));
    places = std::max(places, elements(op->getResult(0)));
    places += kStepElements; // of the last block
    FactoredTable constants(segments);
    table = t.constant("segments", constants.segments);
    decays = t.constant("decays", constants.decays);
    shift = offset ? t.loadIndex(operands.back(), t.index(0)) : t.index(0);
    thread = t.thread();
  }

  struct Segment {
    Value number, offset, count, at, matrices, rows, columns;
  };
  Segment segment(Value number) {
    auto field = [&](int64_t i) {
      return t.loadIndex(table, t.add(t.mul(number, t.index(FactoredTable::kFields)), t.index(i)));
    };
    return {number, field(0), field(1), field(2), field(3), field(4), field(5)};
  }
  Value isMatrix(const Segment &s) { return t.less(t.index(0), s.columns); }
  Value decay(const Segment &s) { return t.load(decays, s.number); }
  /// Returns the last segment whose moment begins at or before the element `place` of the moment.
  Segment segmentOfMoment(Value place) {
    Value found = t.index(0);
    for (int64_t step = llvm::bit_floor(uint64_t(std::max<int64_t>(1, segmentCount))); step > 0;
         step /= 2) {
      Value next = t.add(found, t.index(step));
      Value safe = t.min(next, t.index(std::max<int64_t>(0, segmentCount - 1)));
      Value begin =
          t.loadIndex(table, t.add(t.mul(safe, t.index(FactoredTable::kFields)), t.index(2)));
      Value before =
          t.both(t.less(next, t.index(segmentCount)), t.less(begin, t.add(place, t.index(1))));
      found = t.select(before, next, found);
    }
    return segment(found);
  }

  /// The element of the operands that is element `place` of the group.
  Value local(Value place) { return t.sub(place, shift); }
  // Both operands are not negative.
  Value div(Value x, Value y) { return narrow<arith::DivUIOp>(x, y); }
  Value rem(Value x, Value y) { return narrow<arith::RemUIOp>(x, y); }
  Value atLeast(Value x, Value y) { return arith::MaxSIOp::create(b, loc, x, y); }
  Value clamp(Value x, Value low, Value high) { return atLeast(low, t.min(high, x)); }
  /// Returns x / size rounded up or down; 0 if x is negative.
  Value ceil(Value x, Value size) {
    return div(t.add(atLeast(x, t.index(0)), t.sub(size, t.index(1))), size);
  }
  Value floor(Value x, Value size) { return div(atLeast(x, t.index(0)), size); }
  Value atLeastOne(Value x) { return atLeast(x, t.index(1)); }

  Real real(Value value) { return Real(b, loc, value); }
  Real toReal(Value index) {
    Value number = arith::IndexCastOp::create(b, loc, b.getI64Type(), index);
    return real(arith::SIToFPOp::create(b, loc, b.getF32Type(), number));
  }
  Real scalar(Value memref) { return real(t.load(memref, t.index(0))); }
  /// Loads an element of a memref of f32 or 16-bit floats as f32.
  Real load(Value memref, Value at, Type element) {
    Value value = t.load(memref, at);
    if (is16BitFloat(element))
      value = widen16Bits(b, loc, arith::BitcastOp::create(b, loc, element, value));
    return real(value);
  }
  void store(Value value, Value memref, Value at, Type element) {
    if (is16BitFloat(element))
      value =
          arith::BitcastOp::create(b, loc, b.getI16Type(), narrowTo16Bits(b, loc, value, element));
    t.store(value, memref, at);
  }

  Value zero() { return arith::ConstantOp::create(b, loc, b.getF64FloatAttr(0)); }
  Value plus(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value toF32(Value x) { return arith::TruncFOp::create(b, loc, b.getF32Type(), x); }
  /// Returns the sum of `term`, an f32, over from, from + step, ... below `to`.
  Value sum(Value from, Value to, int64_t step, llvm::function_ref<Value(Value at)> term) {
    auto loop = scf::ForOp::create(b, loc, from, to, t.index(step), zero());
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(loop.getBody());
    Value wide = arith::ExtFOp::create(b, loc, b.getF64Type(), term(loop.getInductionVar()));
    scf::YieldOp::create(b, loc, plus(loop.getRegionIterArg(0), wide));
    return loop.getResult(0);
  }
  /// Returns the sum of a value over the lanes of a warp.
  Value sumWarp(Value value);
  /// Returns the sum of a value over the threads of the block, all of which call it.
  Value sumBlock(Value value);

  /// The direction of an element of the operands.
  using Direction = llvm::function_ref<Real(Real gradient, Value at)>;
  /// Emits `body` for the parts of a segment in which the elements [begin, end) of the operands
  /// lie: matrices, or all of a vector. All threads of the block call it with the same values.
  void forDirections(const Segment &s, Value begin, Value end, Value moment, Real epsilon,
                     llvm::function_ref<void(Value from, Value to, Direction direction)> body);

  Threads t;
  OpBuilder &b;
  Location loc;
  Value thread;
  int64_t segmentCount;

private:
  /// Computes in 32 bits if every place fits: a division of 64 bits is a call.
  template <typename Op> Value narrow(Value x, Value y) {
    if (places > INT32_MAX)
      return Op::create(b, loc, x, y);
    auto small = [&](Value value) -> Value {
      return arith::IndexCastUIOp::create(b, loc, b.getI32Type(), value);
    };
    return arith::IndexCastUIOp::create(b, loc, b.getIndexType(),
                                        Op::create(b, loc, small(x), small(y)));
  }

  int64_t places = 0; ///< of the group, of its moment, and in the operands
  Value table, decays, shift, parts, totals;
};

Value Emitter::sumWarp(Value value) {
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

Value Emitter::sumBlock(Value value) {
  constexpr int64_t first = 16, each = kThreads / first;
  if (!parts) {
    parts = t.shared(kThreads, b.getF64Type());
    totals = t.shared(first, b.getF64Type());
  }
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
  // The barriers also order these loads before the stores of the next sum.
  t.barrier();
  return add(totals, t.index(0), first);
}

void Emitter::forDirections(
    const Segment &s, Value begin, Value end, Value moment, Real epsilon,
    llvm::function_ref<void(Value from, Value to, Direction direction)> body) {
  Value first = local(s.offset);
  Value low = clamp(first, begin, end), high = clamp(t.add(first, s.count), begin, end);
  auto scaled = [&](Real gradient, Real variance) {
    return gradient / sqrt(max(variance, epsilon * epsilon));
  };
  t.when(t.both(isMatrix(s), t.less(low, high)), [&] {
    Value size = t.mul(s.rows, s.columns);
    t.forRange(
        floor(t.sub(low, first), size), ceil(t.sub(high, first), size), t.index(1), [&](Value m) {
          Value rowsAt = t.add(s.at, t.mul(m, s.rows));
          Value columnsAt = t.add(t.add(s.at, t.mul(s.matrices, s.rows)), t.mul(m, s.columns));
          Value total = sumBlock(sum(thread, s.rows, kThreads, [&](Value r) -> Value {
            return t.load(moment, t.add(rowsAt, r));
          }));
          Real mean = max(real(toF32(total)) / toReal(s.rows), epsilon);
          Value begins = t.add(first, t.mul(m, size));
          body(atLeast(low, begins), t.min(high, t.add(begins, size)),
               [&](Real gradient, Value at) {
                 Value place = t.sub(at, begins);
                 Real row = real(t.load(moment, t.add(rowsAt, div(place, s.columns))));
                 Real column = real(t.load(moment, t.add(columnsAt, rem(place, s.columns))));
                 return scaled(gradient, row / mean * column);
               });
        });
  });
  Value vector = t.less(s.columns, t.index(1));
  t.when(t.both(vector, t.less(low, high)), [&] {
    body(low, high, [&](Real gradient, Value at) {
      return scaled(gradient, real(t.load(moment, t.add(s.at, t.sub(at, first)))));
    });
  });
}

Launch launchFor(int64_t elements, int64_t perBlock) {
  return {std::max<int64_t>(1, llvm::divideCeil(elements, perBlock)), kThreads};
}

/// Each result is the mean of one row or column. A block computes 32 neighbours: columns with a
/// lane each and rows in turn by warps, then rows with a warp each.
struct FactorMeansKernel
    : cuda::OwnKernelOpInterface::ExternalModel<FactorMeansKernel, FactorMeansOp> {
  Launch getLaunch(Operation *op) const { return launchFor(elements(op->getResult(0)), kWarp); }

  LogicalResult emit(Operation *raw, OpBuilder &b, gpu::GPUFuncOp function, ValueRange operands,
                     ValueRange results) const {
    auto op = cast<FactorMeansOp>(raw);
    if (failed(checkFactoredTypes(op, op.getInput(), op.getResult())))
      return failure();
    Emitter e(op, b, function, operands, op.getSegments(), op.getOffset());
    Threads &t = e.t;
    Value warp = e.div(e.thread, t.index(kWarp)), lane = e.rem(e.thread, t.index(kWarp));
    Value size = t.index(elements(op.getInput())), count = t.index(elements(op.getResult()));
    Value begin = t.mul(t.block(), t.index(kWarp));
    Real scale = e.scalar(operands[1]);

    /// The elements start + i * stride of the input, for i from `from` to `to`; of `all` numbers i
    /// in the whole group.
    struct Mean {
      Value isRow, start, stride, from, to, all;
    };
    auto meanOf = [&](Value place) -> Mean {
      Emitter::Segment s = e.segmentOfMoment(place);
      Value matrix = e.isMatrix(s), at = t.sub(place, s.at);
      Value columns = e.atLeastOne(s.columns), rows = t.mul(s.matrices, s.rows);
      Value isRow = t.both(matrix, t.less(at, rows));
      Value number = e.atLeast(t.sub(at, rows), t.index(0)); // of a column
      Value columnStart =
          t.add(t.mul(e.div(number, columns), t.mul(s.rows, s.columns)), e.rem(number, columns));
      Value stride = t.select(matrix, t.select(isRow, t.index(1), columns), t.index(1));
      Value start = t.select(matrix, t.select(isRow, t.mul(at, s.columns), columnStart), at);
      Value exists =
          t.select(matrix, t.less(number, t.mul(s.matrices, columns)), t.less(at, s.count));
      exists = t.both(exists, t.less(place, count));
      Value all = t.select(matrix, t.select(isRow, s.columns, s.rows), t.index(1));
      start = e.local(t.add(s.offset, start));
      Value from = e.ceil(t.sub(t.index(0), start), stride);
      Value to = t.min(all, e.ceil(t.sub(size, start), stride));
      return {isRow, start, stride, from, t.select(exists, to, from), all};
    };
    auto squares = [&](const Mean &mean, Value first, Value to, int64_t step) {
      return e.sum(t.add(mean.from, first), to, step, [&](Value i) -> Value {
        Real x = e.load(operands[0], t.add(mean.start, t.mul(i, mean.stride)),
                        elementOf(op.getInput())) *
                 scale;
        return x * x;
      });
    };
    auto finish = [&](const Mean &mean, Value sum, Value place) {
      t.store(e.real(e.toF32(sum)) / e.toReal(e.atLeastOne(mean.all)), results[0], place);
    };

    Value place = t.add(begin, lane);
    Mean own = meanOf(place);
    Value parts = t.shared(kThreads, b.getF64Type());
    t.store(squares(own, warp, t.select(own.isRow, own.from, own.to), kWarps), parts, e.thread);
    t.barrier();
    Value isColumn = t.select(own.isRow, t.less(t.index(1), t.index(0)),
                              t.both(t.less(warp, t.index(1)), t.less(place, count)));
    t.when(isColumn, [&] {
      Value sum = t.load(parts, lane);
      for (int64_t i = 1; i < kWarps; ++i)
        sum = e.plus(sum, t.load(parts, t.add(lane, t.index(i * kWarp))));
      finish(own, sum, place);
    });
    t.forRange(warp, t.index(kWarp), t.index(kWarps), [&](Value i) {
      Value row = t.add(begin, i);
      Mean mean = meanOf(row);
      Value sum = e.sumWarp(squares(mean, lane, t.select(mean.isRow, mean.to, mean.from), kWarp));
      Value stores = t.both(t.both(mean.isRow, t.less(row, count)), t.less(lane, t.index(1)));
      t.when(stores, [&] { finish(mean, sum, row); });
    });
    return success();
  }
};

/// Emits the mean of the segment of this block from the sum of each thread.
void storeMean(Emitter &e, const Emitter::Segment &s, Value sum, Value result) {
  Value total = e.sumBlock(sum);
  e.t.when(e.t.less(e.thread, e.t.index(1)), [&] {
    e.t.store(e.real(e.toF32(total)) / e.toReal(e.atLeastOne(s.count)), result, s.number);
  });
}

/// Each result is the mean of one segment. A block computes it.
struct SegmentMeansKernel
    : cuda::OwnKernelOpInterface::ExternalModel<SegmentMeansKernel, SegmentMeansOp> {
  Launch getLaunch(Operation *op) const { return launchFor(elements(op->getResult(0)), 1); }

  LogicalResult emit(Operation *raw, OpBuilder &b, gpu::GPUFuncOp function, ValueRange operands,
                     ValueRange results) const {
    auto op = cast<SegmentMeansOp>(raw);
    if (failed(checkFactoredTypes(op, op.getInput(), op.getResult())))
      return failure();
    if (op.getSegments().empty())
      return success();
    Emitter e(op, b, function, operands, op.getSegments(), op.getOffset());
    Threads &t = e.t;
    Emitter::Segment s = e.segment(t.block());
    Value size = t.index(elements(op.getInput())), first = e.local(s.offset);
    Value from = e.clamp(first, t.index(0), size);
    Value to = e.clamp(t.add(first, s.count), t.index(0), size);
    Value sum = e.sum(t.add(from, e.thread), to, kThreads, [&](Value at) -> Value {
      Real x = e.load(operands[0], at, elementOf(op.getInput()));
      return x * x;
    });
    storeMean(e, s, sum, results[0]);
    return success();
  }
};

struct DirectionMeansKernel
    : cuda::OwnKernelOpInterface::ExternalModel<DirectionMeansKernel, DirectionMeansOp> {
  Launch getLaunch(Operation *op) const { return launchFor(elements(op->getResult(0)), 1); }

  LogicalResult emit(Operation *raw, OpBuilder &b, gpu::GPUFuncOp function, ValueRange operands,
                     ValueRange results) const {
    auto op = cast<DirectionMeansOp>(raw);
    if (failed(checkFactoredTypes(op, op.getInput(), {op.getMoment(), op.getResult()})))
      return failure();
    if (op.getSegments().empty())
      return success();
    Emitter e(op, b, function, operands, op.getSegments(), op.getOffset());
    Threads &t = e.t;
    Emitter::Segment s = e.segment(t.block());
    Real scale = e.scalar(operands[1]);
    // The thread's own sum, over matrices.
    Value own = t.shared(kThreads, b.getF64Type());
    t.store(e.zero(), own, e.thread);
    e.forDirections(s, t.index(0), t.index(elements(op.getInput())), operands[2],
                    e.scalar(operands[3]), [&](Value from, Value to, Emitter::Direction direction) {
                      Value sum =
                          e.sum(t.add(from, e.thread), to, kThreads, [&](Value at) -> Value {
                            Real g = e.load(operands[0], at, elementOf(op.getInput())) * scale;
                            Real u = direction(g, at);
                            return u * u;
                          });
                      t.store(e.plus(t.load(own, e.thread), sum), own, e.thread);
                    });
    storeMean(e, s, t.load(own, e.thread), results[0]);
    return success();
  }
};

/// Each result is one new element.
struct FactoredStepKernel
    : cuda::OwnKernelOpInterface::ExternalModel<FactoredStepKernel, FactoredStepOp> {
  Launch getLaunch(Operation *op) const {
    return launchFor(elements(op->getResult(0)), kStepElements);
  }

  LogicalResult emit(Operation *raw, OpBuilder &b, gpu::GPUFuncOp function, ValueRange operands,
                     ValueRange results) const {
    auto op = cast<FactoredStepOp>(raw);
    if (failed(
            checkFactoredTypes(op, {op.getParam(), op.getGrad()}, {op.getMoment(), op.getRates()})))
      return failure();
    Emitter e(op, b, function, operands, op.getSegments(), op.getOffset());
    Threads &t = e.t;
    Type type = elementOf(op.getParam()), gradient = elementOf(op.getGrad());
    Value byte = t.load(operands[2], t.index(0));
    Value on = arith::CmpIOp::create(b, e.loc, arith::CmpIPredicate::ne, byte,
                                     arith::ConstantOp::create(b, e.loc, b.getI8IntegerAttr(0)));
    Real scale = e.scalar(operands[3]), epsilon = e.scalar(operands[6]);
    Real decay = e.scalar(operands[4]) * e.scalar(operands[5]);
    Value begin = t.mul(t.block(), t.index(kStepElements));
    Value end = t.min(t.add(begin, t.index(kStepElements)), t.index(elements(op.getParam())));
    // One thread writes an element, whatever the segment: padding is copied first.
    auto forOwn = [&](Value from, Value to, llvm::function_ref<void(Value)> body) {
      Value past = e.rem(t.sub(from, begin), t.index(kThreads));
      Value wait = e.rem(t.sub(t.add(e.thread, t.index(kThreads)), past), t.index(kThreads));
      t.forRange(t.add(from, wait), to, t.index(kThreads), body);
    };
    forOwn(begin, end, [&](Value at) { t.store(t.load(operands[0], at), results[0], at); });
    t.forRange(t.index(0), t.index(e.segmentCount), t.index(1), [&](Value i) {
      Emitter::Segment s = e.segment(i);
      Real keep = 1 - decay * e.real(e.decay(s)), rate = e.real(t.load(operands[8], i));
      e.forDirections(s, begin, end, operands[7], epsilon,
                      [&](Value from, Value to, Emitter::Direction direction) {
                        forOwn(from, to, [&](Value at) {
                          Real g = e.load(operands[1], at, gradient) * scale;
                          Real old = e.load(operands[0], at, type);
                          Real next = old * keep - rate * direction(g, at);
                          // An old 16-bit value that is widened and rounded again keeps its bits.
                          e.store(t.select(on, next, old), results[0], at, type);
                        });
                      });
    });
    return success();
  }
};

} // namespace

void cuda::attachFactoredKernels(MLIRContext &context) {
  FactorMeansOp::attachInterface<FactorMeansKernel>(context);
  SegmentMeansOp::attachInterface<SegmentMeansKernel>(context);
  DirectionMeansOp::attachInterface<DirectionMeansKernel>(context);
  FactoredStepOp::attachInterface<FactoredStepKernel>(context);
}
