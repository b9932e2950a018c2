//===- KernelBase.h - What kernels of all forms share ---------------------===//
#ifndef SHALE_TARGET_CUDA_KERNELBASE_H
#define SHALE_TARGET_CUDA_KERNELBASE_H

#include "dialects/nn/Emit/Reduction.h"
#include "lib/Target/CUDA/BlockExchange.h"
#include "lib/Target/CUDA/GpuSchedule.h"
#include "lib/Target/CUDA/ThreadEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace shale::cuda {

/// Emits a kernel. All threads of a block take the same path, so that barriers and shuffles are
/// reached by all: a thread beyond the last element loads zeros and stores nothing.
class KernelBase {
public:
  KernelBase(mlir::OpBuilder &b, mlir::gpu::GPUFuncOp function, mlir::Region &body,
             const RowForm &form, const GpuSchedule &schedule)
      : b(b), function(function), loc(function.getLoc()), form(form), schedule(schedule),
        yield(body.front().getTerminator()), emitter(b, loc), exchange(b, function) {
    mlir::Block *entry = &function.getBody().front();
    for (auto [argument, memref] : llvm::zip(body.front().getArguments(), entry->getArguments()))
      emitter.bind(argument, memref);
    inputs = body.front().getNumArguments();
    outputs = yield->getNumOperands();
    emitter.nest.pushScope(entry);
  }
  virtual ~KernelBase() = default;

  /// Returns false if no code was found for an op.
  bool run() {
    block = mlir::gpu::BlockIdOp::create(b, loc, mlir::gpu::Dimension::x);
    thread = mlir::gpu::ThreadIdOp::create(b, loc, mlir::gpu::Dimension::x);
    if (!emitAll())
      return false;
    emitter.nest.setInsertion(0);
    mlir::gpu::ReturnOp::create(b, loc);
    emitter.finishAccesses();
    return true;
  }

protected:
  virtual bool emitAll() = 0;

  using Outputs = llvm::SmallVector<NestEmitter::Output>;

  LinearIndex addDim(int64_t size, mlir::Value value, mlir::Value guard = {}) {
    return emitter.addDim(size, value, DimOrigin::Other, 0, guard);
  }
  mlir::Value index(int64_t value) { return emitter.nest.constantIndex(value); }
  mlir::Value plus(mlir::Value lhs, int64_t rhs) {
    return rhs == 0 ? lhs : mlir::Value(mlir::arith::AddIOp::create(b, loc, lhs, index(rhs)));
  }
  mlir::Value less(mlir::Value lhs, int64_t rhs) {
    return mlir::arith::CmpIOp::create(b, loc, mlir::arith::CmpIPredicate::ult, lhs, index(rhs));
  }
  mlir::Value both(mlir::Value lhs, mlir::Value rhs) {
    if (!lhs || !rhs)
      return lhs ? lhs : rhs;
    return mlir::arith::AndIOp::create(b, loc, lhs, rhs);
  }

  /// Appends the outputs with `count` elements at `width` neighbours from `start`.
  bool emitOutputs(int64_t count, const LinearIndex &start, int64_t width, Outputs &made) {
    mlir::ValueRange memrefs =
        mlir::ValueRange(function.getBody().getArguments()).slice(inputs, outputs);
    for (int64_t i = 0; i < width; ++i)
      for (auto [output, memref] : llvm::zip(yield->getOperands(), memrefs)) {
        if (nn::elements(output) != count || isSum(output))
          continue;
        mlir::Value element = emitter.emit(output, start.plus(i));
        if (!element)
          return false;
        made.push_back({memref, start.plus(i), element});
      }
    return true;
  }

  /// Stores where `condition` holds; null: always.
  void storeWhere(mlir::Value condition, llvm::ArrayRef<NestEmitter::Output> made) {
    if (made.empty())
      return;
    emitter.nest.setInsertion();
    mlir::OpBuilder::InsertionGuard guard(b);
    if (condition) {
      auto branch = mlir::scf::IfOp::create(b, loc, condition, /*withElseRegion=*/false);
      b.setInsertionPoint(branch.thenYield());
    }
    emitter.storeOutputs(made);
  }

  /// Returns a dimension of the value, guarded by whether it is below `size`, and the guard.
  std::pair<LinearIndex, mlir::Value> guarded(mlir::Value value, int64_t size) {
    mlir::Value inside = less(value, size);
    return {addDim(size, value, inside), inside};
  }

  /// Whether an output sums columns besides the rows.
  bool isSum(mlir::Value output) const {
    return llvm::any_of(form.sums, [&](auto sum) { return sum.first.getResult() == output; });
  }

  /// Returns what a reduction of nothing gives.
  mlir::Value identity(nn::ReduceOp op) {
    return nn::identityOf(b, loc, op.getKind(), op.getInput().getType().getElementType());
  }

  mlir::OpBuilder &b;
  mlir::gpu::GPUFuncOp function;
  mlir::Location loc;
  const RowForm &form;
  const GpuSchedule &schedule;
  mlir::Operation *yield;
  ThreadEmitter emitter;
  BlockExchange exchange;
  unsigned inputs = 0, outputs = 0;
  mlir::Value block, thread;
};

} // namespace shale::cuda

#endif // SHALE_TARGET_CUDA_KERNELBASE_H
