//===- Embedding.cpp - The gradient of an embedding -----------------------===//
//
// Rows of the table run in parallel. Each range of rows scans all indices in order
// and adds those of its rows, so the order of a row's sum is fixed.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/NN.h"
#include "lib/Target/CPU/Kernels/Kernels.h"
#include "lib/Target/CPU/Kernels/Loops.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace shale::cpu;
using namespace shale::nn;

namespace {

struct EmbeddingGradKernel : OwnKernel::ExternalModel<EmbeddingGradKernel, EmbeddingGradOp> {
  int64_t getRows(Operation *raw) const {
    auto op = cast<EmbeddingGradOp>(raw);
    return cast<RankedTensorType>(op.getResult().getType()).getDimSize(0);
  }
  int64_t getGrain(Operation *raw) const {
    // Every range reads all indices, so ranges are few.
    constexpr int64_t ranges = 64;
    return std::max<int64_t>(1, (getRows(raw) + ranges - 1) / ranges);
  }

  LogicalResult emit(Operation *raw, OpBuilder &b, ValueRange operands, ValueRange results, Value begin, Value end, int64_t lanes) const {
    auto op = cast<EmbeddingGradOp>(raw);
    auto table = cast<RankedTensorType>(op.getResult().getType());
    if (!table.getElementType().isF32())
      return op.emitOpError() << "has a kernel for sums in f32 only; got " << table;
    Type element = cast<RankedTensorType>(op.getGrad().getType()).getElementType();
    Location loc = op.getLoc();
    Loops l(b, loc, lanes);
    int64_t width = table.getDimSize(1), count = cast<RankedTensorType>(op.getIndices().getType()).getNumElements();
    Value indices = operands[0], grad = operands[1], result = results[0];
    Value zero = l.splat(l.real(0));
    l.vectors(l.mul(begin, l.index(width)), l.mul(end, l.index(width)), {},
              [&](Value at, Value mask, ValueRange) -> SmallVector<Value> {
                l.store(result, at, mask, zero);
                return {};
              });
    l.forRange(l.index(0), l.index(count), [&](Value i) {
      Value row = memref::LoadOp::create(b, loc, indices, i);
      row = arith::IndexCastOp::create(b, loc, b.getIndexType(), row);
      Value above = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, row, begin);
      Value below = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, row, end);
      auto mine = scf::IfOp::create(b, loc, arith::AndIOp::create(b, loc, above, below));
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(mine.thenBlock()->getTerminator());
      Value to = l.mul(row, l.index(width)), from = l.mul(i, l.index(width));
      l.vectors(l.index(0), l.index(width), {}, [&](Value j, Value mask, ValueRange) -> SmallVector<Value> {
        Value more = l.load(grad, l.add(from, j), mask, element);
        Value sum = arith::AddFOp::create(b, loc, l.load(result, l.add(to, j), mask), more);
        l.store(result, l.add(to, j), mask, sum);
        return {};
      });
    });
    return success();
  }
};

} // namespace

void shale::cpu::attachEmbeddingKernels(MLIRContext &context) {
  EmbeddingGradOp::attachInterface<EmbeddingGradKernel>(context);
}
