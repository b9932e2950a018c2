//===- Sort.cpp - Orders of elements --------------------------------------===//
//
// The first elements of lines: a thread counts the elements of its line that come before
// its own, which is the place of that.
//
// The order of indices: a counting sort in one launch. A block owns a range of values and reads all
// indices twice; each of its threads owns a part of the indices, in order. First each thread counts
// how often each of the block's values is in its part, and how many indices are below all of them.
// The sums of these counts over smaller values, and over earlier threads for the same value, are
// the places of the thread's indices. The second time the threads write positions to their places.
// Every count has one writer, so there are no atomics, and the time hardly depends on how often a
// value occurs.
//
// Tiles of indices pass through shared memory, so that a warp reads neighbours.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Sort.h"
#include "dialects/interfaces/ElementEmitter.h"
#include "lib/Target/CUDA/Kernels/Kernels.h"
#include "lib/Target/CUDA/Kernels/Threads.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;
using namespace shale::nn;

namespace {

constexpr int64_t kWarp = 32;
/// Threads per block. All blocks read all indices, so values per block are many, and a count per
/// value and thread must fit in shared memory.
constexpr int64_t kThreads = 64;
/// Values per block.
constexpr int64_t kValues = 128;
/// Counts are a matrix [kCounted, kThreads], whose first row is for smaller values. A thread also
/// sums kCounted neighbours of it; an odd number keeps those of a warp in different banks.
constexpr int64_t kCounted = kValues + 1;
static_assert(kCounted % 2 == 1);
/// Indices of a thread's part per tile: one load of a warp. A thread's part of a tile is followed
/// by one unused place, again for the banks.
constexpr int64_t kTile = kWarp, kPitch = kTile + 1;
/// Loads of a thread that are in flight together.
constexpr int64_t kBatch = 16;

class Argsort {
public:
  Argsort(Threads &t, int64_t bound, int64_t count, Value indices, Value order, Value starts)
      : t(t), bound(bound), count(count), indices(indices), order(order), starts(starts),
        part(std::max<int64_t>(kTile, llvm::alignTo(llvm::divideCeil(count, kThreads), kTile))) {}

  void emit() {
    Type type = t.b.getI32Type();
    thread = t.thread();
    first = t.mul(t.block(), t.index(kValues));
    counts = t.shared(kCounted * kThreads, type);
    staged = t.shared(kThreads * kPitch, type);
    totals = t.shared(kThreads, type);
    t.forRange(t.index(0), t.index(kCounted), t.index(1),
               [&](Value row) { t.store(i32(0), counts, countOf(row)); });
    countIndices();
    sumCounts();
    // The first tile's barrier comes between the sums and their use.
    forEachTile(/*barrier=*/part > kTile, [&](Value tile) {
      Value start = t.add(t.mul(thread, t.index(part)), tile);
      t.forRange(t.index(0), t.index(kTile), t.index(kBatch), [&](Value batch) {
        for (auto [i, value] : llvm::enumerate(loadStaged(batch)))
          whenMine(value, [&, i = i](Value place) {
            Value position = t.add(start, t.add(batch, t.index(i)));
            t.store(toInteger(position), order, toIndex(t.load(counts, place)));
            addTo(place, i32(1));
          });
      });
    });
  }

private:
  Value i32(int64_t value) {
    return arith::ConstantOp::create(t.b, t.loc, t.b.getI32IntegerAttr(value));
  }
  Value toInteger(Value index) {
    return arith::IndexCastOp::create(t.b, t.loc, t.b.getI32Type(), index);
  }
  Value toIndex(Value integer) {
    return arith::IndexCastOp::create(t.b, t.loc, t.b.getIndexType(), integer);
  }
  Value plus(Value x, Value y) { return arith::AddIOp::create(t.b, t.loc, x, y); }
  Value compare(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(t.b, t.loc, predicate, x, y);
  }
  /// The place of this thread's count of a row.
  Value countOf(Value row) { return t.add(t.mul(row, t.index(kThreads)), thread); }
  /// The values of a batch of the thread's part of the tile, less the block's first value.
  Threads::Values loadStaged(Value batch) {
    Threads::Values values;
    Value at = t.add(t.mul(thread, t.index(kPitch)), batch);
    for (int64_t i = 0; i < kBatch; ++i)
      values.push_back(t.load(staged, t.add(at, t.index(i))));
    return values;
  }

  /// Emits `body` where `value`, less the block's first value, is one of the block's, with the
  /// place of its count.
  void whenMine(Value value, llvm::function_ref<void(Value)> body) {
    // Unsigned: smaller values are negative.
    t.when(compare(arith::CmpIPredicate::ult, value, i32(kValues)),
           [&] { body(countOf(toIndex(plus(value, i32(1))))); });
  }

  /// Emits `body` for each tile, by its offset in the threads' parts, with its values in `staged`.
  /// `barrier`: with a barrier after each.
  void forEachTile(bool barrier, llvm::function_ref<void(Value)> body) {
    t.forRange(t.index(0), t.index(part), t.index(kTile), [&](Value tile) {
      stage(tile);
      t.barrier();
      body(tile);
      if (barrier)
        t.barrier();
    });
  }

  /// A warp reads the tile's part of one of its threads after another.
  void stage(Value tile) {
    Value lane = arith::RemUIOp::create(t.b, t.loc, thread, t.index(kWarp));
    Value warp = t.sub(thread, lane);
    t.forRange(t.index(0), t.index(kTile), t.index(kBatch), [&](Value batch) {
      Threads::Values owners, values;
      for (int64_t i = 0; i < kBatch; ++i) {
        owners.push_back(t.add(warp, t.add(batch, t.index(i))));
        values.push_back(valueAt(t.add(t.mul(owners.back(), t.index(part)), t.add(tile, lane))));
      }
      for (auto [owner, value] : llvm::zip(owners, values))
        t.store(value, staged, t.add(t.mul(owner, t.index(kPitch)), lane));
    });
  }

  /// The value at a position, less the block's first value. An index out of range has the value
  /// `bound`, a position behind all others one that no block has.
  Value valueAt(Value position) {
    if (count == 0)
      return i32(INT32_MAX);
    Value exists = t.less(position, t.index(count));
    Value value = t.loadIndex(indices, t.select(exists, position, t.index(0)));
    // Unsigned: a negative index is larger than every bound.
    Value inside = compare(arith::CmpIPredicate::ult, value, t.index(bound));
    value = t.sub(t.select(inside, value, t.index(bound)), first);
    return t.select(exists, toInteger(value), i32(INT32_MAX));
  }

  /// Counts the block's values and, in the first row, the smaller ones.
  void countIndices() {
    forEachTile(/*barrier=*/true, [&](Value) {
      auto countBatch = [&](Value batch, ValueRange before) -> Threads::Values {
        Value below = before[0];
        for (Value value : loadStaged(batch)) {
          whenMine(value, [&](Value place) { addTo(place, i32(1)); });
          Value less = compare(arith::CmpIPredicate::slt, value, i32(0));
          below = plus(below, t.select(less, i32(1), i32(0)));
        }
        return {below};
      };
      addTo(thread, t.fold(t.index(0), t.index(kTile), t.index(kBatch), {i32(0)}, countBatch)[0]);
    });
  }
  /// Adds to a count.
  void addTo(Value place, Value value) {
    t.store(plus(t.load(counts, place), value), counts, place);
  }

  /// Replaces each count by the sum of those before it, in row-major order. Those of the first
  /// thread are where the positions of the values start.
  void sumCounts() {
    Value from = t.mul(thread, t.index(kCounted)), to = t.add(from, t.index(kCounted));
    auto sumOf = [&](Value list, Value begin, Value end) {
      return t
          .fold(begin, end, t.index(1), {i32(0)},
                [&](Value i, ValueRange sum) -> Threads::Values {
                  return {plus(sum[0], t.load(list, i))};
                })
          .front();
    };
    t.store(sumOf(counts, from, to), totals, thread);
    t.barrier();
    t.fold(from, to, t.index(1), {sumOf(totals, t.index(0), thread)},
           [&](Value i, ValueRange sum) -> Threads::Values {
             Value own = t.load(counts, i);
             t.store(sum[0], counts, i);
             writeStart(i, sum[0]);
             return {plus(sum[0], own)};
           });
  }

  /// Writes the start of a value if `place` is of the first thread's count of it.
  void writeStart(Value place, Value start) {
    Value threads = t.index(kThreads);
    Value row = arith::DivUIOp::create(t.b, t.loc, place, threads);
    Value value = t.sub(t.add(first, row), t.index(1));
    Value isFirst = compare(arith::CmpIPredicate::eq, t.mul(row, threads), place);
    Value exists = t.both(t.less(t.index(0), row), t.less(value, t.index(bound + 1)));
    t.when(t.both(isFirst, exists), [&] { t.store(start, starts, value); });
  }

  Threads &t;
  int64_t bound, count;
  Value indices, order, starts;
  int64_t part; ///< positions per thread
  Value thread, first, counts, staged, totals;
};

struct ArgsortKernel : cuda::OwnKernelOpInterface::ExternalModel<ArgsortKernel, ArgsortOp> {
  Launch getLaunch(Operation *op) const {
    return {int64_t(llvm::divideCeil(cast<ArgsortOp>(op).getBound() + 1, kValues)), kThreads};
  }
  LogicalResult emit(Operation *raw, OpBuilder &b, gpu::GPUFuncOp function, ValueRange operands,
                     ValueRange results) const {
    auto op = cast<ArgsortOp>(raw);
    Threads t(b, function);
    Argsort(t, op.getBound(), elements(op.getIndices()), operands[0], results[0], results[1])
        .emit();
    return success();
  }
};

constexpr int64_t kLineThreads = 256;

struct TopKKernel : cuda::OwnKernelOpInterface::ExternalModel<TopKKernel, TopKOp> {
  Launch getLaunch(Operation *op) const {
    int64_t count = elements(cast<TopKOp>(op).getInput());
    return {std::max<int64_t>(1, llvm::divideCeil(count, kLineThreads)), kLineThreads};
  }
  LogicalResult emit(Operation *raw, OpBuilder &b, gpu::GPUFuncOp function, ValueRange operands,
                     ValueRange results) const {
    auto op = cast<TopKOp>(raw);
    Threads t(b, function);
    int64_t size = tensorOf(op.getInput()).getShape().back();
    constexpr int64_t kAtMost = int64_t(1) << 20;
    if (size > kAtMost)
      return op.emitOpError() << "orders lines of at most " << kAtMost
                              << " elements on GPUs, where all pairs are compared; got " << size;
    Value own = t.add(t.mul(t.block(), t.index(kLineThreads)), t.thread());
    t.when(t.less(own, t.index(elements(op.getInput()))), [&] {
      Value row = arith::DivUIOp::create(b, t.loc, own, t.index(size));
      Value line = t.mul(row, t.index(size)), i = t.sub(own, line), x = t.load(operands[0], own);
      Type type = getElementTypeOrSelf(op.getInput());
      auto wide = [&](Value value) {
        return is16BitFloat(type)
                   ? widen16Bits(b, t.loc, arith::BitcastOp::create(b, t.loc, type, value))
                   : value;
      };
      Value mine = wide(x);
      auto count = [&](Value j, ValueRange place) -> Threads::Values {
        Value y = t.load(operands[0], t.add(line, j));
        Value first = t.comesBefore(wide(y), j, mine, i, op.getSmallest());
        return {t.add(place[0], t.select(first, t.index(1), t.index(0)))};
      };
      Value place = t.fold(t.index(0), t.index(size), t.index(1), {t.index(0)}, count)[0];
      Value chosen = t.index(tensorOf(op.getIndices()).getShape().back());
      t.when(t.less(place, chosen), [&] {
        Value at = t.add(t.mul(row, chosen), place);
        t.store(x, results[0], at);
        Type number = tensorOf(op.getIndices()).getElementType();
        t.store(arith::IndexCastOp::create(b, t.loc, number, i), results[1], at);
      });
    });
    return success();
  }
};

} // namespace

void cuda::attachSortKernels(MLIRContext &context) {
  TopKOp::attachInterface<TopKKernel>(context);
  ArgsortOp::attachInterface<ArgsortKernel>(context);
}
