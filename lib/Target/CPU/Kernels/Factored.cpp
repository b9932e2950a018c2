//===- Factored.cpp - Updates with factored moments -----------------------===//
//
// Means run in parallel over their results: a thread adds up all elements of a mean, in the order
// of the elements, so that the sum does not depend on the number of threads. New parameters run in
// parallel over elements. All kernels walk a table of the segments, of which a slice of the group
// has a part: ranges are clamped to it.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Optimizers/Real.h"
#include "lib/Codegen/FactoredTable.h"
#include "lib/Target/CPU/Kernels/Kernels.h"
#include "lib/Target/CPU/Kernels/Loops.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace shale;
using namespace shale::cpu;
using namespace shale::nn;

namespace {

/// Elements that are added up before their sum is added to the others.
constexpr int64_t kBlock = 1024;

Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }
int64_t countOf(Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); }

/// Emits what the kernels of one op share.
class Emitter {
public:
  Emitter(Operation *op, OpBuilder &b, ValueRange operands, int64_t lanes, ArrayAttr segments,
          Value offset)
      : l(b, op->getLoc(), lanes), b(b), loc(op->getLoc()), segmentCount(segments.size()) {
    FactoredTable constants(segments);
    table = l.constant("segments", constants.segments);
    decays = l.constant("decays", constants.decays);
    shift = offset ? toIndex(scalar(operands.back())) : l.index(0);
  }

  /// A segment whose number is known at run time.
  struct Segment {
    Value number, offset, count, at, matrices, rows, columns;
  };
  Segment segment(Value number) {
    auto field = [&](int64_t i) {
      return toIndex(memref::LoadOp::create(
          b, loc, table, l.add(l.mul(number, l.index(FactoredTable::kFields)), l.index(i))));
    };
    return {number, field(0), field(1), field(2), field(3), field(4), field(5)};
  }
  void forSegments(llvm::function_ref<void(const Segment &)> body) {
    l.forRange(l.index(0), l.index(segmentCount), [&](Value i) { body(segment(i)); });
  }
  Value decay(const Segment &s) { return memref::LoadOp::create(b, loc, decays, s.number); }

  /// Emits `matrix` if the segment has matrices, else `vector`.
  void ifMatrix(const Segment &s, llvm::function_ref<void()> matrix,
                llvm::function_ref<void()> vector) {
    Value is = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, s.columns, l.index(0));
    auto branch = scf::IfOp::create(b, loc, is, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.thenBlock()->getTerminator());
    matrix();
    b.setInsertionPoint(branch.elseBlock()->getTerminator());
    vector();
  }

  /// The element of the operands that is element `place` of the group.
  Value local(Value place) { return l.sub(place, shift); }
  Value clamp(Value x, Value low, Value high) { return l.max(low, l.min(high, x)); }
  /// Returns x / size rounded up; 0 if x is negative.
  Value ceil(Value x, Value size) {
    return l.div(l.add(l.max(x, l.index(0)), l.sub(size, l.index(1))), size);
  }
  /// Returns x / size rounded down; 0 if x is negative.
  Value floor(Value x, Value size) { return l.div(l.max(x, l.index(0)), size); }

  Value toIndex(Value number) {
    return arith::IndexCastOp::create(b, loc, b.getIndexType(), number);
  }
  Value scalar(Value memref) {
    return memref::LoadOp::create(b, loc, memref, ValueRange{l.index(0)});
  }
  Value toReal(Value index) {
    Value number = arith::IndexCastOp::create(b, loc, b.getI64Type(), index);
    return arith::SIToFPOp::create(b, loc, b.getF32Type(), number);
  }
  Real real(Value value) { return Real(b, loc, value); }
  Value loadF32(Value memref, Value at) { return memref::LoadOp::create(b, loc, memref, at); }
  void storeF32(Value memref, Value at, Value value) {
    memref::StoreOp::create(b, loc, value, memref, at);
  }

  /// Returns the sum of `term` over [from, to), a vector of f32 at each place.
  Value sum(Value from, Value to, llvm::function_ref<Value(Value at, Value mask)> term) {
    Value zero = l.splat(l.real(0));
    Value lanes = l.vectors(from, to, zero, [&](Value at, Value mask, ValueRange sums) {
      Value next = arith::AddFOp::create(b, loc, sums[0], term(at, mask));
      return SmallVector<Value>{l.keep(mask, next, sums[0])};
    })[0];
    return l.sumLanes(lanes);
  }
  /// Adds the sum of `term` over [from, to) to an element of `result`: blocks in f32, their sums in
  /// f64, since a large table has thousands of blocks.
  void addSum(Value result, Value at, Value from, Value to,
              llvm::function_ref<Value(Value at, Value mask)> term) {
    Type f64 = b.getF64Type();
    Value before = arith::ExtFOp::create(b, loc, f64, loadF32(result, at));
    auto blocks = scf::ForOp::create(b, loc, from, to, l.index(kBlock), before);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToEnd(blocks.getBody());
      Value begin = blocks.getInductionVar();
      Value part = sum(begin, l.min(to, l.add(begin, l.index(kBlock))), term);
      Value total = arith::AddFOp::create(b, loc, blocks.getRegionIterArg(0),
                                          arith::ExtFOp::create(b, loc, f64, part));
      scf::YieldOp::create(b, loc, total);
    }
    storeF32(result, at, arith::TruncFOp::create(b, loc, b.getF32Type(), blocks.getResult(0)));
  }

  /// The direction of the elements of one row, or of a vector.
  using Direction = llvm::function_ref<Value(Value gradient, Value at, Value mask)>;
  /// Emits `body` for the parts of a segment in which the elements [begin, end) of the operands
  /// lie: rows of matrices, or all of a vector. `direction` gives the direction there.
  void forDirections(const Segment &s, Value begin, Value end, Value moment, Value epsilon,
                     llvm::function_ref<void(Value from, Value to, Direction direction)> body);

  Loops l;
  OpBuilder &b;
  Location loc;

private:
  int64_t segmentCount;
  Value table, decays, shift;
};

void Emitter::forDirections(
    const Segment &s, Value begin, Value end, Value moment, Value epsilon,
    llvm::function_ref<void(Value from, Value to, Direction direction)> body) {
  Value first = local(s.offset);
  Value low = clamp(first, begin, end), high = clamp(l.add(first, s.count), begin, end);
  Real eps = real(l.splat(epsilon));
  auto matrix = [&] {
    Value size = l.mul(s.rows, s.columns);
    Value none = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, low, high);
    Value last = arith::SelectOp::create(b, loc, none, l.index(0), ceil(l.sub(high, first), size));
    l.forRange(floor(l.sub(low, first), size), last, [&](Value m) {
      Value rowsAt = l.add(s.at, l.mul(m, s.rows));
      Value total = sum(rowsAt, l.add(rowsAt, s.rows),
                        [&](Value at, Value mask) { return l.load(moment, at, mask); });
      Real mean = max(real(total) / real(toReal(s.rows)), real(epsilon));
      Value begins = l.add(first, l.mul(m, size)); // of the matrix
      Value from = floor(l.sub(low, begins), s.columns);
      Value to = l.min(s.rows, ceil(l.sub(high, begins), s.columns));
      l.forRange(from, to, [&](Value r) {
        Real row = real(l.splat(real(loadF32(moment, l.add(rowsAt, r))) / mean));
        Value start = l.add(begins, l.mul(r, s.columns));
        // The element of the moment that belongs to an element of the row.
        Value columnsAt = l.add(l.add(s.at, l.mul(s.matrices, s.rows)), l.mul(m, s.columns));
        body(l.max(low, start), l.min(high, l.add(start, s.columns)),
             [&](Value gradient, Value at, Value mask) -> Value {
               Value place = l.add(columnsAt, l.sub(at, start));
               Real variance = row * real(l.load(moment, place, mask));
               return real(gradient) / sqrt(max(variance, eps * eps));
             });
      });
    });
  };
  auto vector = [&] {
    body(low, high, [&](Value gradient, Value at, Value mask) -> Value {
      Value place = l.add(s.at, l.sub(at, first));
      return real(gradient) / sqrt(max(real(l.load(moment, place, mask)), eps * eps));
    });
  };
  ifMatrix(s, matrix, vector);
}

/// Each result is the mean of one row or column.
struct FactorMeansKernel : OwnKernelOpInterface::ExternalModel<FactorMeansKernel, FactorMeansOp> {
  int64_t getRows(Operation *op) const { return countOf(op->getResult(0)); }
  int64_t getGrain(Operation *) const { return 64; }
  LogicalResult emit(Operation *raw, OpBuilder &b, ValueRange operands, ValueRange results,
                     Value begin, Value end, int64_t lanes) const {
    auto op = cast<FactorMeansOp>(raw);
    if (failed(checkFactoredTypes(op, op.getInput(), op.getResult())))
      return failure();
    Emitter e(op, b, operands, lanes, op.getSegments(), op.getOffset());
    Loops &l = e.l;
    Value input = operands[0], result = results[0];
    Real scale = e.real(l.splat(e.scalar(operands[1])));
    Value zero = l.index(0), size = l.index(countOf(op.getInput()));
    auto square = [&](Value at, Value mask) -> Value {
      Real x = e.real(l.load(input, at, mask, elementOf(op.getInput()))) * scale;
      return x * x;
    };
    l.zero(result, begin, end);
    e.forSegments([&](const Emitter::Segment &s) {
      Value first = e.local(s.offset);
      auto vector = [&] {
        Value there = l.sub(first, s.at); // from a place in the result to one in the input
        Value low = e.clamp(l.max(s.at, l.sub(zero, there)), begin, end);
        Value high = e.clamp(l.min(l.add(s.at, s.count), l.sub(size, there)), begin, end);
        l.vectors(low, high, {}, [&](Value at, Value mask, ValueRange) -> SmallVector<Value> {
          l.store(result, at, mask, square(l.add(at, there), mask));
          return {};
        });
      };
      auto matrix = [&] {
        Value rows = l.mul(s.matrices, s.rows), columnsAt = l.add(s.at, rows);
        l.forRange(e.clamp(s.at, begin, end), e.clamp(columnsAt, begin, end), [&](Value row) {
          Value start = l.add(first, l.mul(l.sub(row, s.at), s.columns));
          e.addSum(result, row, e.clamp(start, zero, size),
                   e.clamp(l.add(start, s.columns), zero, size), square);
          e.storeF32(result, row, e.real(e.loadF32(result, row)) / e.real(e.toReal(s.columns)));
        });
        Value ends = l.add(columnsAt, l.mul(s.matrices, s.columns));
        Value low = e.clamp(columnsAt, begin, end), high = e.clamp(ends, begin, end);
        l.forRange(e.floor(l.sub(low, columnsAt), s.columns),
                   e.ceil(l.sub(high, columnsAt), s.columns), [&](Value m) {
                     Value own = l.add(columnsAt, l.mul(m, s.columns)); // in the result
                     Value from = l.max(low, own), to = l.min(high, l.add(own, s.columns));
                     Value begins = l.add(first, l.mul(m, l.mul(s.rows, s.columns)));
                     // Rows of which the input has elements.
                     Value r0 = e.floor(l.sub(zero, begins), s.columns);
                     Value r1 = l.min(s.rows, e.ceil(l.sub(size, begins), s.columns));
                     l.forRange(r0, r1, [&](Value r) {
                       Value there = l.sub(l.add(begins, l.mul(r, s.columns)), own);
                       l.vectors(l.max(from, l.sub(zero, there)), l.min(to, l.sub(size, there)), {},
                                 [&](Value at, Value mask, ValueRange) -> SmallVector<Value> {
                                   Real sum = e.real(l.load(result, at, mask)) +
                                              e.real(square(l.add(at, there), mask));
                                   l.store(result, at, mask, sum);
                                   return {};
                                 });
                     });
                     Real count = e.real(l.splat(e.toReal(s.rows)));
                     l.vectors(
                         from, to, {}, [&](Value at, Value mask, ValueRange) -> SmallVector<Value> {
                           l.store(result, at, mask, e.real(l.load(result, at, mask)) / count);
                           return {};
                         });
                   });
      };
      e.ifMatrix(s, matrix, vector);
    });
    return success();
  }
};

/// Emits the means of the segments [begin, end). `addSquares` adds the squares of a segment to the
/// element of `result` that has its number.
void emitMeans(Emitter &e, Value result, Value begin, Value end,
               llvm::function_ref<void(const Emitter::Segment &)> addSquares) {
  e.l.zero(result, begin, end);
  e.l.forRange(begin, end, [&](Value i) {
    Emitter::Segment s = e.segment(i);
    addSquares(s);
    Real count = e.real(e.toReal(e.l.max(s.count, e.l.index(1))));
    e.storeF32(result, i, e.real(e.loadF32(result, i)) / count);
  });
}

/// Each result is the mean of one segment.
struct SegmentMeansKernel
    : OwnKernelOpInterface::ExternalModel<SegmentMeansKernel, SegmentMeansOp> {
  int64_t getRows(Operation *op) const { return countOf(op->getResult(0)); }
  LogicalResult emit(Operation *raw, OpBuilder &b, ValueRange operands, ValueRange results,
                     Value begin, Value end, int64_t lanes) const {
    auto op = cast<SegmentMeansOp>(raw);
    if (failed(checkFactoredTypes(op, op.getInput(), op.getResult())))
      return failure();
    Emitter e(op, b, operands, lanes, op.getSegments(), op.getOffset());
    Loops &l = e.l;
    Value size = l.index(countOf(op.getInput()));
    emitMeans(e, results[0], begin, end, [&](const Emitter::Segment &s) {
      Value first = e.local(s.offset);
      e.addSum(results[0], s.number, e.clamp(first, l.index(0), size),
               e.clamp(l.add(first, s.count), l.index(0), size),
               [&](Value at, Value mask) -> Value {
                 Real x = e.real(l.load(operands[0], at, mask, elementOf(op.getInput())));
                 return x * x;
               });
    });
    return success();
  }
};

struct DirectionMeansKernel
    : OwnKernelOpInterface::ExternalModel<DirectionMeansKernel, DirectionMeansOp> {
  int64_t getRows(Operation *op) const { return countOf(op->getResult(0)); }
  LogicalResult emit(Operation *raw, OpBuilder &b, ValueRange operands, ValueRange results,
                     Value begin, Value end, int64_t lanes) const {
    auto op = cast<DirectionMeansOp>(raw);
    if (failed(checkFactoredTypes(op, op.getInput(), {op.getMoment(), op.getResult()})))
      return failure();
    Emitter e(op, b, operands, lanes, op.getSegments(), op.getOffset());
    Loops &l = e.l;
    Real scale = e.real(l.splat(e.scalar(operands[1])));
    emitMeans(e, results[0], begin, end, [&](const Emitter::Segment &s) {
      e.forDirections(
          s, l.index(0), l.index(countOf(op.getInput())), operands[2], e.scalar(operands[3]),
          [&](Value from, Value to, Emitter::Direction direction) {
            e.addSum(results[0], s.number, from, to, [&](Value at, Value mask) -> Value {
              Real g = e.real(l.load(operands[0], at, mask, elementOf(op.getInput()))) * scale;
              Real u = e.real(direction(g, at, mask));
              return u * u;
            });
          });
    });
    return success();
  }
};

/// Each result is one new element.
struct FactoredStepKernel
    : OwnKernelOpInterface::ExternalModel<FactoredStepKernel, FactoredStepOp> {
  int64_t getRows(Operation *op) const { return countOf(op->getResult(0)); }
  int64_t getGrain(Operation *) const { return 4096; }
  LogicalResult emit(Operation *raw, OpBuilder &b, ValueRange operands, ValueRange results,
                     Value begin, Value end, int64_t lanes) const {
    auto op = cast<FactoredStepOp>(raw);
    if (failed(
            checkFactoredTypes(op, {op.getParam(), op.getGrad()}, {op.getMoment(), op.getRates()})))
      return failure();
    Emitter e(op, b, operands, lanes, op.getSegments(), op.getOffset());
    Loops &l = e.l;
    Type type = elementOf(op.getParam()), gradient = elementOf(op.getGrad());
    Value param = operands[0];
    Location loc = op.getLoc();
    Value byte = e.scalar(operands[2]);
    Value on = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, byte,
                                     arith::ConstantOp::create(b, loc, b.getI8IntegerAttr(0)));
    Real scale = e.real(l.splat(e.scalar(operands[3])));
    Real decay = e.real(e.scalar(operands[4])) * e.real(e.scalar(operands[5]));
    // The result may have other bytes than the parameter, of which padding is a part.
    l.vectors(begin, end, {}, [&](Value at, Value mask, ValueRange) -> SmallVector<Value> {
      l.store(results[0], at, mask, l.load(param, at, mask, type), type);
      return {};
    });
    e.forSegments([&](const Emitter::Segment &s) {
      Real keep = e.real(l.splat(1 - decay * e.real(e.decay(s))));
      Real rate = e.real(l.splat(e.loadF32(operands[8], s.number)));
      e.forDirections(
          s, begin, end, operands[7], e.scalar(operands[6]),
          [&](Value from, Value to, Emitter::Direction direction) {
            l.vectors(from, to, {}, [&](Value at, Value mask, ValueRange) -> SmallVector<Value> {
              Real g = e.real(l.load(operands[1], at, mask, gradient)) * scale;
              Real old = e.real(l.load(results[0], at, mask, type));
              Real next = old * keep - rate * e.real(direction(g, at, mask));
              // An old 16-bit value that is widened and rounded again keeps its bits.
              l.store(results[0], at, mask, arith::SelectOp::create(b, loc, on, next, old), type);
              return {};
            });
          });
    });
    return success();
  }
};

} // namespace

void shale::cpu::attachFactoredKernels(MLIRContext &context) {
  FactorMeansOp::attachInterface<FactorMeansKernel>(context);
  SegmentMeansOp::attachInterface<SegmentMeansKernel>(context);
  DirectionMeansOp::attachInterface<DirectionMeansKernel>(context);
  FactoredStepOp::attachInterface<FactoredStepKernel>(context);
}
