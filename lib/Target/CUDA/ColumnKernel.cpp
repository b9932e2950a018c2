//===- ColumnKernel.cpp - Kernels that reduce columns ---------------------===//
#include "lib/Target/CUDA/GpuKernel.h"
#include "lib/Target/CUDA/KernelBase.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

namespace {

class ColumnKernel final : public KernelBase {
public:
  using KernelBase::KernelBase;

  /// Reduces the columns of this block's strip. Each thread reduces its rows in order, then the
  /// threads of the first row reduce what those of a column have, in order.
  bool emitAll() override {
    int64_t across = schedule.strip / schedule.width, down = schedule.threads / across;
    int64_t strips = llvm::divideCeil(schedule.inner, schedule.strip);
    Value strip = arith::RemUIOp::create(b, loc, block, index(strips));
    Value number = arith::DivUIOp::create(b, loc, block, index(strips));
    LinearIndex outer = addDim(schedule.outer, number);
    Value first = arith::DivUIOp::create(b, loc, thread, index(across));
    Value place = arith::RemUIOp::create(b, loc, thread, index(across));
    Value piece = arith::MulIOp::create(b, loc, strip, index(across));
    LinearIndex column =
        guarded(Value(arith::AddIOp::create(b, loc, piece, place)), schedule.inner / schedule.width)
            .first.times(schedule.width);
    SmallVector<nn::ReduceOp> ops(yield->getBlock()->getOps<nn::ReduceOp>());
    SmallVector<Value> values;
    for (nn::ReduceOp op : ops)
      values.append(schedule.width, identity(op));
    scf::ForOp loop = emitter.nest.openLoop(first, index(schedule.each), down, values);
    values.assign(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
    LinearIndex at = addDim(schedule.each, loop.getInductionVar()).times(schedule.inner);
    at = at.plus(outer.times(schedule.each * schedule.inner)).plus(column);
    for (auto [i, value] : llvm::enumerate(values)) {
      nn::ReduceOp op = ops[i / schedule.width];
      Value element = emitter.emit(op.getInput(), at.plus(int64_t(i) % schedule.width));
      if (!element)
        return false;
      emitter.nest.setInsertion();
      value = nn::combine(b, loc, op.getKind(), value, element);
    }
    ValueRange sums = emitter.nest.closeLoop(loop, values);
    emitter.nest.setInsertion(0);
    return storeColumns(ops, SmallVector<Value>(sums), first, place, strip, outer, down);
  }

private:
  /// Reduces the values of `down` threads per column and stores the outputs. `sums` are `width` per
  /// op, of the thread at row `first` and place `place` of the strip.
  bool storeColumns(MutableArrayRef<nn::ReduceOp> ops, ArrayRef<Value> sums, Value first,
                    Value place, Value strip, const LinearIndex &outer, int64_t down) {
    SmallVector<Value> shared;
    Value start = arith::MulIOp::create(b, loc, first, index(schedule.strip));
    start = arith::AddIOp::create(b, loc, start,
                                  arith::MulIOp::create(b, loc, place, index(schedule.width)));
    for (auto [i, op] : llvm::enumerate(ops)) {
      shared.push_back(
          exchange.makeShared(down * schedule.strip, sums[i * schedule.width].getType()));
      for (int64_t lane = 0; lane < schedule.width; ++lane)
        exchange.store(sums[i * schedule.width + lane], shared.back(), plus(start, lane));
    }
    gpu::BarrierOp::create(b, loc);
    // Threads beyond the strip repeat its sums; they neither load nor store.
    Value column = arith::RemUIOp::create(b, loc, thread, index(schedule.strip));
    Value wanted = arith::MulIOp::create(b, loc, strip, index(schedule.strip));
    wanted = arith::AddIOp::create(b, loc, wanted, column);
    Value mine = both(less(thread, schedule.strip), less(wanted, schedule.inner));
    LinearIndex result = outer.times(schedule.inner).plus(addDim(schedule.inner, wanted, mine));
    for (auto [i, op] : llvm::enumerate(ops)) {
      Type type = sums[i * schedule.width].getType();
      Value sum;
      for (int64_t row = 0; row < down; ++row) {
        Value part = exchange.load(shared[i], plus(column, row * schedule.strip), type);
        sum = sum ? nn::combine(b, loc, op.getKind(), sum, part) : part;
      }
      emitter.nest.scope().memo[{op.getResult().getAsOpaquePointer(), result}] = sum;
    }
    Outputs made;
    if (!emitOutputs(form.columns, result, 1, made))
      return false;
    storeWhere(mine, made);
    return true;
  }
};

} // namespace

bool cuda::emitColumns(OpBuilder &b, gpu::GPUFuncOp function, Region &body, const RowForm &form,
                       const GpuSchedule &schedule) {
  return ColumnKernel(b, function, body, form, schedule).run();
}
