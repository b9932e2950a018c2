//===- Data.cpp - The gradient of gather_nd -------------------------------===//
//
// Slices of the result run in parallel. Each range of slices scans the index tuples
// of its batch rows in order and adds those of its slices, so the order of a sum is
// fixed.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Gather.h"
#include "lib/Target/CPU/Kernels/Kernels.h"
#include "lib/Target/CPU/Kernels/Loops.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace shale::cpu;
using namespace shale::nn;

namespace {
/// Sizes of one gather_nd_grad: the result is [batches, rows, inner].
struct Picks {
  explicit Picks(GatherNdGradOp op) {
    ArrayRef<int64_t> whole = cast<RankedTensorType>(op.getResult().getType()).getShape();
    ArrayRef<int64_t> at = cast<RankedTensorType>(op.getIndices().getType()).getShape();
    int64_t batch = op.getBatchDims();
    auto product = [](ArrayRef<int64_t> sizes) {
      int64_t result = 1;
      for (int64_t size : sizes)
        result *= size;
      return result;
    };
    tuple = at.back();
    sizes = whole.slice(batch, tuple);
    batches = product(whole.take_front(batch)), rows = product(sizes),
    inner = product(whole.drop_front(batch + tuple));
    tuples = product(at.drop_back().drop_front(batch));
  }
  ArrayRef<int64_t> sizes;
  int64_t batches, rows, inner, tuple, tuples;
};

struct GatherNdGradKernel
    : OwnKernelOpInterface::ExternalModel<GatherNdGradKernel, GatherNdGradOp> {
  int64_t getRows(Operation *raw) const {
    auto op = cast<GatherNdGradOp>(raw);
    return Picks(op).batches * Picks(op).rows;
  }
  int64_t getGrain(Operation *raw) const {
    auto op = cast<GatherNdGradOp>(raw);
    // A range reads all tuples of its batch rows, so ranges are few, and of whole batch rows if
    // there are enough.
    constexpr int64_t ranges = 64;
    Picks p(op);
    int64_t grain = std::max<int64_t>(1, (p.batches * p.rows + ranges - 1) / ranges);
    return p.batches >= ranges ? (grain + p.rows - 1) / std::max<int64_t>(p.rows, 1) * p.rows
                               : grain;
  }

  LogicalResult emit(Operation *raw, OpBuilder &b, ValueRange operands, ValueRange results,
                     Value begin, Value end, int64_t lanes) const {
    auto op = cast<GatherNdGradOp>(raw);
    if (!cast<RankedTensorType>(op.getResult().getType()).getElementType().isF32())
      return op.emitOpError() << "has a kernel for sums in f32 only; got "
                              << op.getResult().getType();
    Type element = cast<RankedTensorType>(op.getGrad().getType()).getElementType();
    Location loc = op.getLoc();
    Loops l(b, loc, lanes);
    Picks p(op);
    auto i = [&](int64_t value) { return l.index(value); };
    Value indices = operands[0], grad = operands[1], result = results[0];
    l.zero(result, l.mul(begin, i(p.inner)), l.mul(end, i(p.inner)));
    if (p.batches * p.rows == 0)
      return success();
    // Batch rows that overlap the range.
    Value first = l.div(begin, i(p.rows)), last = l.div(l.add(end, i(p.rows - 1)), i(p.rows));
    l.forRange(l.mul(first, i(p.tuples)), l.mul(last, i(p.tuples)), [&](Value pick) {
      Value row = l.div(pick, i(std::max<int64_t>(p.tuples, 1))), inside;
      for (auto [k, size] : llvm::enumerate(p.sizes)) {
        Value index = memref::LoadOp::create(b, loc, indices, l.add(l.mul(pick, i(p.tuple)), i(k)));
        index = arith::IndexCastOp::create(b, loc, b.getIndexType(), index);
        // Unsigned: a negative index is larger than every size.
        Value fits = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, index, i(size));
        inside = inside ? Value(arith::AndIOp::create(b, loc, inside, fits)) : fits;
        row = l.add(l.mul(row, i(size)), index);
      }
      Value mine = l.within(row, begin, end);
      if (inside)
        mine = arith::AndIOp::create(b, loc, mine, inside);
      auto taken = scf::IfOp::create(b, loc, mine);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(taken.thenBlock()->getTerminator());
      Value to = l.mul(row, i(p.inner)), from = l.mul(pick, i(p.inner));
      if (p.inner == 1 && element.isF32()) { // a vector of one element would be masked
        Value sum = arith::AddFOp::create(b, loc, memref::LoadOp::create(b, loc, result, to),
                                          memref::LoadOp::create(b, loc, grad, from));
        memref::StoreOp::create(b, loc, sum, result, to);
        return;
      }
      l.addInto(result, to, grad, from, p.inner, element);
    });
    return success();
  }
};

} // namespace

void shale::cpu::attachDataKernels(MLIRContext &context) {
  GatherNdGradOp::attachInterface<GatherNdGradKernel>(context);
}
