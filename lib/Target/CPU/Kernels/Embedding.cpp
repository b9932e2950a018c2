//===- Embedding.cpp - The gradient of an embedding -----------------------===//
//
// Rows of the table run in parallel. Each range of rows scans all indices in order
// and adds those of its rows, so the order of a row's sum is fixed.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Embedding.h"
#include "lib/Target/CPU/Kernels/Kernels.h"
#include "lib/Target/CPU/Kernels/Loops.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace shale::cpu;
using namespace shale::nn;

namespace {

struct EmbeddingGradKernel
    : OwnKernelOpInterface::ExternalModel<EmbeddingGradKernel, EmbeddingGradOp> {
  int64_t getRows(Operation *raw) const {
    auto op = cast<EmbeddingGradOp>(raw);
    return cast<RankedTensorType>(op.getResult().getType()).getDimSize(0);
  }
  int64_t getGrain(Operation *raw) const {
    // Every range reads all indices, so ranges are few.
    constexpr int64_t ranges = 64;
    return std::max<int64_t>(1, (getRows(raw) + ranges - 1) / ranges);
  }

  LogicalResult emit(Operation *raw, OpBuilder &b, ValueRange operands, ValueRange results,
                     Value begin, Value end, int64_t lanes) const {
    auto op = cast<EmbeddingGradOp>(raw);
    auto table = cast<RankedTensorType>(op.getResult().getType());
    if (!table.getElementType().isF32())
      return op.emitOpError() << "has a kernel for sums in f32 only; got " << table;
    Type element = cast<RankedTensorType>(op.getGrad().getType()).getElementType();
    Location loc = op.getLoc();
    Loops l(b, loc, lanes);
    int64_t width = table.getDimSize(1),
            count = cast<RankedTensorType>(op.getIndices().getType()).getNumElements();
    Value indices = operands[0], grad = operands[1], result = results[0];
    l.zero(result, l.mul(begin, l.index(width)), l.mul(end, l.index(width)));
    l.forRange(l.index(0), l.index(count), [&](Value i) {
      Value row = memref::LoadOp::create(b, loc, indices, i);
      row = arith::IndexCastOp::create(b, loc, b.getIndexType(), row);
      auto mine = scf::IfOp::create(b, loc, l.within(row, begin, end));
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(mine.thenBlock()->getTerminator());
      Value to = l.mul(row, l.index(width)), from = l.mul(i, l.index(width));
      l.addInto(result, to, grad, from, width, element);
    });
    return success();
  }
};

} // namespace

void shale::cpu::attachEmbeddingKernels(MLIRContext &context) {
  EmbeddingGradOp::attachInterface<EmbeddingGradKernel>(context);
}
