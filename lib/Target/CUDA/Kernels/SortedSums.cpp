//===- SortedSums.cpp - Sums of sorted rows into a table ------------------===//
//
// Some threads own a row of the table, or a strip of it, and keep its sum in
// registers. They add the first occurrences up to a multiple of kSortedPiece, then the
// sums of whole pieces, then the rest. So a row that occurs n times takes about
// n / kSortedPiece additions one after another, and the order of every sum is fixed.
//
// If the squares of a row are summed, too, its threads go through all of its strips, and
// their sums are added in shared memory, half of them to the other half.
//
//===----------------------------------------------------------------------===//
#include "dialects/interfaces/ElementEmitter.h"
#include "dialects/nn/Ops/Sort.h"
#include "lib/Target/CUDA/Kernels/Kernels.h"
#include "lib/Target/CUDA/Kernels/Threads.h"
#include "lib/Target/CUDA/ThreadEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;
using namespace shale::nn;

namespace {

/// The least number of threads per block, and the most per row.
constexpr int64_t kThreads = 128, kMostLanes = 256;
/// Vectors of neighbouring columns per thread, at most.
constexpr int64_t kMostChunks = 4;
/// Terms that are loaded before the first of them is added.
constexpr int64_t kTerms = 4;

/// How the columns of a row are divided: strips are of different blocks, lanes are threads.
struct Schedule {
  int64_t rows, columns;
  int64_t width;   ///< neighbouring columns of one access
  int64_t vectors; ///< accesses per row
  int64_t lanes, chunks, strips;
  int64_t blocksPerRow; ///< the strips, or 1 if threads go through all strips of a row

  Schedule(RankedTensorType table, bool wholeRows)
      : rows(table.getDimSize(0)), columns(table.getDimSize(1)) {
    for (width = 4; columns % width != 0;)
      width /= 2;
    vectors = columns / width;
    int64_t least = llvm::divideCeil(std::max<int64_t>(1, vectors), kMostChunks);
    lanes = std::min<int64_t>(kMostLanes, llvm::bit_ceil(uint64_t(least)));
    chunks = std::min<int64_t>(kMostChunks, llvm::divideCeil(vectors, lanes));
    strips = llvm::divideCeil(vectors, lanes * std::max<int64_t>(1, chunks));
    blocksPerRow = wholeRows ? 1 : strips;
  }
  int64_t threads() const { return std::max(kThreads, lanes); }
  int64_t rowsPerBlock() const { return threads() / lanes; }
  Launch launch() const {
    int64_t groups = llvm::divideCeil(rows, rowsPerBlock());
    return {std::max<int64_t>(1, groups * blocksPerRow), threads()};
  }
};

class SortedSum {
public:
  SortedSum(Threads &t, const Schedule &schedule, int64_t count, Type element, ValueRange operands,
            ValueRange results)
      : t(t), s(schedule), count(count), element(element), order(operands[0]), starts(operands[1]),
        grad(operands[2]), pieces(operands[3]), result(results[0]),
        squares(results.size() == 2 ? results[1] : Value()) {}

  void emit() {
    if (s.rows == 0 || (s.columns == 0 && !squares))
      return;
    Value blocks = t.index(s.blocksPerRow), lanes = t.index(s.lanes);
    Value row =
        t.add(t.mul(div(t.block(), blocks), t.index(s.rowsPerBlock())), div(t.thread(), lanes));
    Value lane = rem(t.thread(), lanes);
    if (squares)
      return emitWithSquares(row, lane);
    Value vector = t.add(firstVector(rem(t.block(), blocks)), lane);
    t.when(t.less(row, t.index(s.rows)), [&] { emitStrip(row, vector); });
  }

private:
  Value div(Value x, Value y) { return arith::DivUIOp::create(t.b, t.loc, x, y); }
  Value rem(Value x, Value y) { return arith::RemUIOp::create(t.b, t.loc, x, y); }
  Value atLeast(Value x, Value y) { return arith::MaxSIOp::create(t.b, t.loc, x, y); }
  Value plus(Value x, Value y) { return arith::AddFOp::create(t.b, t.loc, x, y); }
  Value below(Value x, Value y) {
    return arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ult, x, y);
  }
  Value firstVector(Value strip) { return t.mul(strip, t.index(s.lanes * s.chunks)); }
  Value zeros() {
    return constantLike(t.b, t.loc, VectorType::get({s.width}, t.b.getF32Type()), 0);
  }
  Value loadVector(Value memref, Value at) {
    auto type = VectorType::get({s.width}, cast<MemRefType>(memref.getType()).getElementType());
    return vector::LoadOp::create(t.b, t.loc, type, memref, at, /*nontemporal=*/false,
                                  llvm::MaybeAlign(valueBytes(type)));
  }

  /// Every thread reaches the barriers, those without a row, too.
  void emitWithSquares(Value row, Value lane) {
    Value zero = constantLike(t.b, t.loc, t.b.getF32Type(), 0);
    Value shared = t.shared(s.threads(), t.b.getF32Type()), thread = t.thread();
    Value inside = t.less(row, t.index(s.rows));
    t.when(inside, [&] {
      Threads::Values sum = t.fold(
          t.index(0), t.index(s.strips), t.index(1), {zero}, [&](Value strip, ValueRange before) {
            return sumSquares(emitStrip(row, t.add(firstVector(strip), lane)), before[0]);
          });
      t.store(sum[0], shared, thread);
    });
    for (int64_t half = s.lanes / 2; half > 0; half /= 2) {
      t.barrier();
      auto addOther = [&] {
        Value other = t.load(shared, t.add(thread, t.index(half)));
        t.store(plus(t.load(shared, thread), other), shared, thread);
      };
      t.when(t.both(inside, t.less(lane, t.index(half))), addOther);
    }
    t.when(t.both(inside, t.less(lane, t.index(1))),
           [&] { t.store(t.load(shared, thread), squares, row); });
  }

  /// Adds the squares of a thread's sums of a strip to `sum`, in the order of their columns.
  Threads::Values sumSquares(const Threads::Values &sums, Value sum) {
    for (auto [inside, vector] : llvm::zip(insides, sums)) {
      Value square = arith::MulFOp::create(t.b, t.loc, vector, vector);
      if (inside)
        square = t.select(inside, square, zeros());
      for (int64_t i = 0; i < s.width; ++i)
        sum = plus(sum, vector::ExtractOp::create(t.b, t.loc, square, i));
    }
    return {sum};
  }

  /// Stores the sums of a thread's chunks, the first of which is `first`, and returns them.
  Threads::Values emitStrip(Value row, Value first) {
    columns.clear();
    insides.clear();
    for (int64_t chunk = 0; chunk < s.chunks; ++chunk) {
      Value vector = t.add(first, t.index(chunk * s.lanes));
      bool whole = s.strips * s.lanes * s.chunks == s.vectors;
      insides.push_back(whole ? Value() : t.less(vector, t.index(s.vectors)));
      // Lanes beyond the row compute the last vector again, and do not store it.
      Value safe = whole ? vector : t.min(vector, t.index(s.vectors - 1));
      columns.push_back(t.mul(safe, t.index(s.width)));
    }
    Value all = t.index(count), piece = t.index(kSortedPiece);
    auto start = [&](Value at) { return atLeast(t.index(0), t.min(t.loadIndex(starts, at), all)); };
    Value begin = start(row), end = atLeast(begin, start(t.add(row, t.index(1))));
    Value firstPiece = div(t.add(begin, t.index(kSortedPiece - 1)), piece);
    Value lastPiece = atLeast(firstPiece, div(end, piece));
    Value split = t.less(firstPiece, lastPiece);
    Threads::Values sums(s.chunks, zeros());
    sums = addTerms(begin, t.select(split, t.mul(firstPiece, piece), end), sums,
                    [&](ValueRange at) { return loadRows(at); });
    sums = addTerms(firstPiece, lastPiece, sums, [&](ValueRange at) { return loadPieces(at); });
    sums = addTerms(t.select(split, t.mul(lastPiece, piece), end), end, sums,
                    [&](ValueRange at) { return loadRows(at); });
    for (auto [column, inside, sum] : llvm::zip(columns, insides, sums)) {
      auto store = [&, &column = column, &sum = sum] {
        vector::StoreOp::create(
            t.b, t.loc, sum, result, t.add(t.mul(row, t.index(s.columns)), column),
            /*nontemporal=*/false, llvm::MaybeAlign(valueBytes(cast<VectorType>(sum.getType()))));
      };
      if (inside)
        t.when(inside, store);
      else
        store();
    }
    return sums;
  }

  /// Loads the chunks of several terms, one term after another.
  using LoadTerms = llvm::function_ref<Threads::Values(ValueRange at)>;

  /// Adds the terms from `from` to `to`, in order.
  Threads::Values addTerms(Value from, Value to, const Threads::Values &sums, LoadTerms load) {
    auto add = [&](int64_t terms) {
      return [&, terms](Value at, ValueRange before) {
        Threads::Values places, next(before);
        for (int64_t i = 0; i < terms; ++i)
          places.push_back(t.add(at, t.index(i)));
        for (auto [i, value] : llvm::enumerate(load(places)))
          next[i % s.chunks] = plus(next[i % s.chunks], value);
        return next;
      };
    };
    Value step = t.index(kTerms);
    Value groups = t.add(from, t.mul(div(t.sub(to, from), step), step));
    return t.fold(groups, to, t.index(1), t.fold(from, groups, step, sums, add(kTerms)), add(1));
  }

  Threads::Values loadRows(ValueRange at) {
    Threads::Values rows, insides, values;
    for (Value place : at) {
      Value row = t.loadIndex(order, place);
      insides.push_back(below(row, t.index(count)));
      rows.push_back(t.select(insides.back(), row, t.index(0)));
    }
    for (Value row : rows)
      for (Value column : columns)
        values.push_back(loadVector(grad, t.add(t.mul(row, t.index(s.columns)), column)));
    for (auto [i, value] : llvm::enumerate(values)) {
      if (is16BitFloat(element)) {
        Type floats = VectorType::get({s.width}, element);
        value = widen16Bits(t.b, t.loc, arith::BitcastOp::create(t.b, t.loc, floats, value));
      }
      value = t.select(insides[i / s.chunks], value, zeros());
    }
    return values;
  }

  Threads::Values loadPieces(ValueRange at) {
    Threads::Values values;
    for (Value piece : at)
      for (Value column : columns)
        values.push_back(loadVector(pieces, t.add(t.mul(piece, t.index(s.columns)), column)));
    return values;
  }

  Threads &t;
  const Schedule &s;
  int64_t count;
  Type element;
  Value order, starts, grad, pieces, result, squares;
  Threads::Values columns, insides;
};

struct SortedSumKernel
    : cuda::OwnKernelOpInterface::ExternalModel<SortedSumKernel, SortedEmbeddingGradOp> {
  static Schedule scheduleOf(Operation *op) {
    return Schedule(cast<RankedTensorType>(op->getResult(0).getType()),
                    /*wholeRows=*/op->getNumResults() == 2);
  }
  Launch getLaunch(Operation *op) const { return scheduleOf(op).launch(); }

  LogicalResult emit(Operation *raw, OpBuilder &b, gpu::GPUFuncOp function, ValueRange operands,
                     ValueRange results) const {
    auto op = cast<SortedEmbeddingGradOp>(raw);
    auto grad = cast<RankedTensorType>(op.getGrad().getType());
    if (!cast<RankedTensorType>(op.getResult().getType()).getElementType().isF32())
      return op.emitOpError() << "has a kernel for sums in f32 only; got "
                              << op.getResult().getType();
    Threads t(b, function);
    Schedule schedule = scheduleOf(op);
    SortedSum(t, schedule, grad.getDimSize(0), grad.getElementType(), operands, results).emit();
    return success();
  }
};

} // namespace

void cuda::attachSortedSumKernels(MLIRContext &context) {
  SortedEmbeddingGradOp::attachInterface<SortedSumKernel>(context);
}
