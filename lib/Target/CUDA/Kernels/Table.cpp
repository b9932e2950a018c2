//===- Table.cpp - Sums into the rows of a table --------------------------===//
//
// The gradients of lookups. A block owns some rows of the table. It scans the indices
// in tiles; the threads compact those of its rows, in order, into a list in shared
// memory, and then add the list's rows one after another, each thread in its own
// columns. So the order of every sum is fixed, without atomics and without a sort.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Embedding.h"
#include "dialects/nn/Ops/Gather.h"
#include "lib/Target/CUDA/Kernels/Kernels.h"
#include "lib/Target/CUDA/Kernels/Threads.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace shale;
using namespace shale::cuda;
using namespace shale::nn;

namespace {

constexpr int64_t kWarp = 32;
/// Threads per block, and indices per tile.
constexpr int64_t kThreads = 256;
/// Rows of the table per block: each block reads all indices, so blocks should be few.
constexpr int64_t kRows = 64;

/// A lookup: `batches` times `tuples` index tuples select rows of a table [batches * rows, inner].
struct Lookup {
  int64_t batches, rows, inner, tuples;
  ArrayRef<int64_t> sizes; ///< of the dimensions that a tuple indexes; their product is `rows`
};

Launch launchOf(const Lookup &lookup) {
  return {std::max<int64_t>(1, llvm::divideCeil(lookup.batches * lookup.rows, kRows)), kThreads};
}

class TableSum {
public:
  TableSum(Threads &t, const Lookup &lookup, Value indices, Value gradient, Type element,
           Value result)
      : t(t), lookup(lookup), indices(indices), gradient(gradient), element(element),
        result(result) {}

  void emit() {
    Type i32 = t.b.getI32Type();
    thread = t.thread();
    int64_t all = lookup.batches * lookup.rows;
    first = t.mul(t.block(), t.index(kRows));
    end = t.min(t.add(first, t.index(kRows)), t.index(all));
    list = t.shared(kThreads, i32);
    rows = t.shared(kThreads, i32);
    totals = t.shared(kThreads / kWarp, i32);
    Value zero = arith::ConstantOp::create(t.b, t.loc, t.b.getF32FloatAttr(0));
    Value inner = t.index(lookup.inner);
    t.forRange(t.add(t.mul(first, inner), thread), t.mul(end, inner), t.index(kThreads),
               [&](Value at) { t.store(zero, result, at); });
    // The picks of the batches that overlap this block's rows.
    auto batch = [&](Value row) {
      return arith::DivUIOp::create(t.b, t.loc, row, t.index(std::max<int64_t>(1, lookup.rows)));
    };
    Value from = t.mul(batch(first), t.index(lookup.tuples));
    Value to = t.mul(batch(t.add(end, t.index(std::max<int64_t>(1, lookup.rows) - 1))),
                     t.index(lookup.tuples));
    // The barriers of compact() also order the zeros before the sums, and the sums of one tile
    // before the list of the next.
    t.forRange(from, to, t.index(kThreads), [&](Value tile) { addRows(compact(tile, to)); });
  }

private:
  Value i32(int64_t value) {
    return arith::ConstantOp::create(t.b, t.loc, t.b.getI32IntegerAttr(value));
  }
  Value toInteger(Value index) {
    return arith::IndexCastOp::create(t.b, t.loc, t.b.getI32Type(), index);
  }

  /// Returns whether the pick of this thread is of a row of this block, and that row.
  std::pair<Value, Value> rowOf(Value pick, Value inside) {
    Value safe = t.select(inside, pick, t.index(0));
    Value row =
        arith::DivUIOp::create(t.b, t.loc, safe, t.index(std::max<int64_t>(1, lookup.tuples)));
    int64_t tuple = lookup.sizes.size();
    for (auto [i, size] : llvm::enumerate(lookup.sizes)) {
      Value index = t.loadIndex(indices, t.add(t.mul(safe, t.index(tuple)), t.index(int64_t(i))));
      // Unsigned: a negative index is larger than every size.
      inside = t.both(inside, arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ult, index,
                                                    t.index(size)));
      row = t.add(t.mul(row, t.index(size)), index);
    }
    inside = t.both(inside, t.less(t.sub(first, t.index(1)), row));
    return {t.both(inside, t.less(row, end)), row};
  }

  /// Writes the picks of this block's rows to the list, in order. Returns their number.
  Value compact(Value tile, Value to) {
    Value pick = t.add(tile, thread);
    auto [mine, row] = rowOf(pick, t.less(pick, to));
    Value flag = t.select(mine, i32(1), i32(0)), sum = flag;
    for (int64_t distance = 1; distance < kWarp; distance *= 2) {
      auto before = gpu::ShuffleOp::create(t.b, t.loc, sum, distance, kWarp, gpu::ShuffleMode::UP);
      sum = arith::AddIOp::create(t.b, t.loc, sum,
                                  t.select(before.getValid(), before.getShuffleResult(), i32(0)));
    }
    Value warp = arith::DivUIOp::create(t.b, t.loc, thread, t.index(kWarp));
    Value lane = arith::RemUIOp::create(t.b, t.loc, thread, t.index(kWarp));
    t.when(t.less(t.index(kWarp - 2), lane), [&] { t.store(sum, totals, warp); });
    t.barrier();
    Value base = i32(0), count = i32(0);
    for (int64_t i = 0; i < kThreads / kWarp; ++i) {
      Value number = t.load(totals, t.index(i));
      base =
          t.select(t.less(t.index(i), warp), arith::AddIOp::create(t.b, t.loc, base, number), base);
      count = arith::AddIOp::create(t.b, t.loc, count, number);
    }
    t.when(mine, [&, &row = row] {
      Value place =
          arith::AddIOp::create(t.b, t.loc, base, arith::SubIOp::create(t.b, t.loc, sum, i32(1)));
      place = arith::IndexCastOp::create(t.b, t.loc, t.b.getIndexType(), place);
      t.store(toInteger(pick), list, place);
      t.store(toInteger(t.sub(row, first)), rows, place);
    });
    t.barrier();
    return arith::IndexCastOp::create(t.b, t.loc, t.b.getIndexType(), count);
  }

  void addRows(Value count) {
    Value inner = t.index(lookup.inner);
    t.forRange(t.index(0), count, t.index(1), [&](Value i) {
      Value from = t.mul(t.loadIndex(list, i), inner);
      Value to = t.mul(t.add(first, t.loadIndex(rows, i)), inner);
      t.forRange(thread, inner, t.index(kThreads), [&](Value column) {
        Value place = t.add(to, column);
        Value added = t.load(gradient, t.add(from, column));
        if (is16BitFloat(element))
          added = widen16Bits(t.b, t.loc, arith::BitcastOp::create(t.b, t.loc, element, added));
        t.store(arith::AddFOp::create(t.b, t.loc, t.load(result, place), added), result, place);
      });
    });
  }

  Threads &t;
  const Lookup &lookup;
  Value indices, gradient;
  Type element;
  Value result;
  Value thread, first, end, list, rows, totals;
};

ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

Lookup lookupOf(EmbeddingGradOp op) {
  ArrayRef<int64_t> table = shapeOf(op.getResult());
  return {1, table[0], table[1], elements(op.getIndices()), table.take_front(1)};
}

Lookup lookupOf(GatherNdGradOp op) {
  ArrayRef<int64_t> whole = shapeOf(op.getResult()), at = shapeOf(op.getIndices());
  int64_t batch = op.getBatchDims(), tuple = at.back();
  auto product = [](ArrayRef<int64_t> sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<int64_t>());
  };
  ArrayRef<int64_t> sizes = whole.slice(batch, tuple);
  return {product(whole.take_front(batch)), product(sizes),
          product(whole.drop_front(batch + tuple)), product(at.drop_back().drop_front(batch)),
          sizes};
}

template <typename Op>
struct TableKernel : cuda::OwnKernelOpInterface::ExternalModel<TableKernel<Op>, Op> {
  Launch getLaunch(Operation *op) const { return launchOf(lookupOf(cast<Op>(op))); }

  LogicalResult emit(Operation *raw, OpBuilder &b, gpu::GPUFuncOp function, ValueRange operands,
                     ValueRange results) const {
    auto op = cast<Op>(raw);
    if (!cast<RankedTensorType>(op.getResult().getType()).getElementType().isF32())
      return op.emitOpError() << "has a kernel for sums in f32 only; got "
                              << op.getResult().getType();
    Lookup lookup = lookupOf(op);
    if (lookup.batches * lookup.tuples > INT32_MAX)
      return op.emitOpError() << "has a kernel for at most " << INT32_MAX << " indices; got "
                              << lookup.batches * lookup.tuples;
    Threads t(b, function);
    Type element = cast<RankedTensorType>(op.getGrad().getType()).getElementType();
    TableSum(t, lookup, operands[0], operands[1], element, results[0]).emit();
    return success();
  }
};

} // namespace

void cuda::attachTableKernels(MLIRContext &context) {
  EmbeddingGradOp::attachInterface<TableKernel<EmbeddingGradOp>>(context);
  GatherNdGradOp::attachInterface<TableKernel<GatherNdGradOp>>(context);
}
