//===- GpuKernel.cpp - Kernels of rows, columns and elements --------------===//
//
// The bits of the results depend on shapes only.
//
//===----------------------------------------------------------------------===//
#include "lib/Target/CUDA/GpuKernel.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Target/CUDA/KernelBase.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

namespace {

constexpr int64_t kWarp = 32;

/// The threads of a kernel whose form has rows: which row and which columns each of them takes.
class RowThreads : public KernelBase {
protected:
  using KernelBase::KernelBase;

  /// A chunk of neighbouring columns of the row.
  struct Chunk {
    int64_t number; ///< among the unrolled ones
    LinearIndex start;
    Value inside; ///< whether it is this thread's; null: always
  };

  /// Sets this thread's place in its row.
  void placeLane() {
    lane = thread;
    if (schedule.rowsPerBlock == 1)
      return;
    Value size = index(schedule.rowThreads);
    slot = arith::DivUIOp::create(b, loc, thread, size);
    lane = arith::RemUIOp::create(b, loc, thread, size);
  }

  /// Sets the row.
  void placeRow() {
    Value value = block;
    if (slot) {
      value = arith::MulIOp::create(b, loc, block, index(schedule.rowsPerBlock));
      value = arith::AddIOp::create(b, loc, value, slot);
    }
    if (form.rows % schedule.rowsPerBlock == 0)
      row = addDim(form.rows, value);
    else
      std::tie(row, rowInside) = guarded(value, form.rows);
  }

  int64_t pieces() const { return form.columns / schedule.width; }

  /// Returns this thread's chunk `number`, unrolled in the scope of the row.
  Chunk unrolled(int64_t number) {
    if (chunks.size() > size_t(number))
      return chunks[number];
    emitter.nest.setInsertion(rowScope);
    int64_t first = number * schedule.rowThreads;
    LinearIndex piece = laneDim.plus(first);
    Value inside;
    if (first + schedule.rowThreads > pieces())
      std::tie(piece, inside) = guarded(plus(lane, first), pieces());
    chunks.push_back({number, firstColumn.plus(piece.times(schedule.width)), inside});
    return chunks.back();
  }

  /// Calls `body` for each chunk of this thread, with the values that a loop carries.
  bool forEachChunk(SmallVectorImpl<Value> &values,
                    llvm::function_ref<bool(const Chunk &, SmallVectorImpl<Value> &)> body) {
    for (int64_t i = 0; i < schedule.chunks; ++i)
      if (!body(unrolled(i), values))
        return false;
    if (schedule.chunks > 0)
      return true;
    emitter.nest.setInsertion();
    scf::ForOp loop =
        emitter.nest.openLoop(lane, index(pieces()), schedule.rowThreads, ValueRange(values));
    values.assign(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
    LinearIndex piece = addDim(pieces(), loop.getInductionVar());
    if (!body({0, firstColumn.plus(piece.times(schedule.width)), Value()}, values))
      return false;
    ValueRange results = emitter.nest.closeLoop(loop, values);
    values.assign(results.begin(), results.end());
    return true;
  }

  Value powerOf(Value value, Value base) {
    return math::ExpOp::create(b, loc, arith::SubFOp::create(b, loc, value, base));
  }

  /// Adds exp(x - max) over a chunk to a sum of exp(x - before), where `max` is the greater maximum
  /// after the chunk. Both are of this thread, which may have seen only -inf: the sum is 0 then.
  Value addPowers(nn::ReduceOp op, const Chunk &chunk, Value before, Value max, Value sum) {
    Value least = identity(op), zero = constantLike(b, loc, sum.getType(), 0);
    Value isLeast = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, max, least);
    Value base = arith::SelectOp::create(b, loc, isLeast, zero, max);
    Value differs = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, max, before);
    auto scaled = scf::IfOp::create(b, loc, sum.getType(), differs, /*withElseRegion=*/true);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToEnd(scaled.thenBlock());
      Value moved = arith::MulFOp::create(b, loc, sum, powerOf(before, base));
      scf::YieldOp::create(b, loc, moved);
      b.setInsertionPointToEnd(scaled.elseBlock());
      scf::YieldOp::create(b, loc, sum);
    }
    SmallVector<Value> powers;
    for (int64_t i = 0; i < schedule.width; ++i)
      powers.push_back(powerOf(emitter.emit(op.getInput(), chunk.start.plus(i)), base));
    return arith::AddFOp::create(b, loc, scaled.getResult(0),
                                 exchange.reduceHalves(nn::ReduceKind::Sum, powers));
  }

  /// Reduces the elements of a chunk, by halves.
  Value reduceChunk(nn::ReduceOp op, const Chunk &chunk) {
    SmallVector<Value> elements;
    for (int64_t i = 0; i < schedule.width; ++i) {
      elements.push_back(emitter.emit(op.getInput(), chunk.start.plus(i)));
      if (!elements.back())
        return nullptr;
    }
    emitter.nest.setInsertion();
    Value sum = exchange.reduceHalves(op.getKind(), elements);
    if (chunk.inside)
      sum = arith::SelectOp::create(b, loc, chunk.inside, sum, identity(op));
    return sum;
  }

  /// Reduces the values of a row's threads. All get the result.
  Value reduceThreads(nn::ReduceKind kind, Value value) {
    return exchange.reduceRow(kind, value,
                              {schedule.rowThreads, schedule.rowsPerBlock, thread, slot}, turn);
  }

  Value lane; ///< this thread's number among those of its row
  LinearIndex row, laneDim, firstColumn;
  Value rowInside; ///< whether the row exists; null: always
  Value slot;      ///< its number among the rows side by side; null: there is one
  Value turn;      ///< 0 and 1 in turn if a loop takes one row after another
  unsigned rowScope = 0;
  SmallVector<Chunk> chunks;
};

class GpuKernel final : public RowThreads {
public:
  using RowThreads::RowThreads;

private:
  bool emitAll() override { return form.flat ? emitFlat() : emitRows(); }

  bool emitFlat() {
    int64_t each = schedule.chunks / schedule.parts;
    int64_t units = form.columns / (schedule.width * schedule.parts);
    Value first = arith::MulIOp::create(b, loc, block, index(schedule.threads * each));
    first = arith::AddIOp::create(b, loc, first, thread);
    bool whole = schedule.blocks * schedule.threads * each == units;
    LinearIndex start;
    if (whole)
      start = addDim(units, first);
    for (int64_t number = 0; number < each; ++number) {
      emitter.nest.setInsertion(0);
      LinearIndex unit = start.plus(number * schedule.threads);
      Value condition;
      if (!whole)
        std::tie(unit, condition) = guarded(plus(first, number * schedule.threads), units);
      Outputs made;
      for (int64_t part = 0; part < schedule.parts; ++part)
        if (!emitOutputs(form.columns, chunkOf(unit, part), schedule.width, made))
          return false;
      // Other outputs have an element for each place, where the parts are computed, too.
      if (schedule.parts > 1 && !emitOutputs(form.columns / schedule.parts,
                                             unit.times(schedule.width), schedule.width, made))
        return false;
      storeWhere(condition, made);
    }
    return true;
  }

  /// Returns the first element of a unit's chunk in a part.
  LinearIndex chunkOf(const LinearIndex &unit, int64_t part) {
    if (schedule.parts == 1)
      return unit.times(schedule.width);
    LinearIndex group, place;
    emitter.divide(unit, schedule.part / schedule.width, group, place);
    return group.times(schedule.parts * schedule.part)
        .plus(place.times(schedule.width))
        .plus(part * schedule.part);
  }

  bool emitRows() {
    placeLane();
    if (schedule.sumRows > 0)
      return emitSummedRows();
    placeRow();
    laneDim = addDim(schedule.rowThreads, lane);
    firstColumn = row.times(form.columns);
    return emitRow();
  }

  /// Emits everything that has the current row.
  bool emitRow() {
    for (unsigned level = 0; level < form.levels; ++level)
      if (!addColumns(level) || !emitReductions(level))
        return false;
    SmallVector<Value> none;
    if (hasWideOutputs() && form.columns > 1 &&
        !forEachChunk(none, [&](const Chunk &chunk, SmallVectorImpl<Value> &) {
          Outputs made;
          if (!emitOutputs(form.rows * form.columns, chunk.start, schedule.width, made) ||
              !addColumns(form.levels, chunk))
            return false;
          storeWhere(both(rowInside, chunk.inside), made);
          return true;
        }))
      return false;
    Outputs made;
    emitter.nest.setInsertion(rowScope);
    if (!emitOutputs(form.rows, row, 1, made))
      return false;
    if (made.empty())
      return true;
    emitter.nest.setInsertion(rowScope);
    if (replacesInput(form.rows))
      gpu::BarrierOp::create(b, loc);
    storeWhere(both(rowInside, less(lane, 1)), made);
    return true;
  }

  /// Whether an output or a sum of columns needs all elements of a row after its reductions.
  bool hasWideOutputs() const {
    return llvm::any_of(yield->getOperands(), [&](Value output) {
      return isSum(output) || nn::elements(output) != form.rows;
    });
  }

  // ---- sums of columns

  /// Emits the rows of a block one after another, `rowsPerBlock` at a time, and the sums of their
  /// columns.
  bool emitSummedRows() {
    int64_t beside = schedule.rowsPerBlock, count = llvm::divideCeil(schedule.sumRows, beside);
    LinearIndex first = addDim(schedule.blocks, block).times(schedule.sumRows);
    for (auto [op, level] : form.sums)
      columnSums.append(schedule.chunks * schedule.width, identity(op));
    scf::ForOp loop = emitter.nest.openLoop(index(0), index(count), 1, columnSums);
    columnSums.assign(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
    rowScope = emitter.nest.depth();
    Value number = loop.getInductionVar();
    turn = arith::RemUIOp::create(b, loc, number, index(2));
    Value place = arith::MulIOp::create(b, loc, number, index(beside));
    if (slot)
      place = arith::AddIOp::create(b, loc, place, slot);
    if (schedule.sumRows % beside == 0)
      row = addDim(schedule.sumRows, place);
    else
      std::tie(row, rowInside) = guarded(place, schedule.sumRows);
    row = row.plus(first);
    laneDim = addDim(schedule.rowThreads, lane);
    firstColumn = row.times(form.columns);
    if (!loadRow() || !emitRow())
      return false;
    ValueRange sums = emitter.nest.closeLoop(loop, columnSums);
    columnSums.assign(sums.begin(), sums.end());
    chunks.clear();
    rowScope = 0;
    laneDim = addDim(schedule.rowThreads, lane);
    firstColumn = LinearIndex();
    if (slot)
      storeSums();
    else
      storeOwnSums();
    return true;
  }

  /// Loads everything that is read at the elements of a row before any of them is stored. Stores
  /// would keep later loads from being in flight together.
  bool loadRow() {
    for (int64_t i = 0; i < schedule.chunks; ++i)
      for (BlockArgument input : yield->getBlock()->getArguments()) {
        if (nn::elements(input) != form.rows * form.columns || !isReadInPlace(input))
          continue;
        for (int64_t lane = 0; lane < schedule.width; ++lane)
          if (!emitter.emit(input, unrolled(i).start.plus(lane)))
            return false;
      }
    return true;
  }

  /// Whether an input is read at the element that is computed.
  static bool isReadInPlace(Value input) {
    return llvm::all_of(input.getUsers(), [](Operation *user) {
      auto indexed = dyn_cast<IndexedOpInterface>(user);
      Access access = indexed ? indexed.getAccess(0) : Access::Any;
      return isa<ElementwiseOpInterface>(user) || access == Access::Same ||
             access == Access::Reduces;
    });
  }

  /// Adds the row's elements to the sums of columns that need `level` levels of reductions.
  bool addColumns(unsigned level) {
    for (int64_t i = 0; i < schedule.chunks && !form.sums.empty(); ++i)
      if (!addColumns(level, unrolled(i)))
        return false;
    return true;
  }

  bool addColumns(unsigned level, const Chunk &chunk) {
    for (auto [i, sum] : llvm::enumerate(form.sums)) {
      auto [op, needed] = sum;
      for (int64_t lane = 0; needed == level && lane < schedule.width; ++lane) {
        Value element = emitter.emit(op.getInput(), chunk.start.plus(lane));
        if (!element)
          return false;
        emitter.nest.setInsertion(rowScope);
        if (rowInside)
          element = arith::SelectOp::create(b, loc, rowInside, element, identity(op));
        Value &value = columnSums[sumAt(i, chunk.number, lane)];
        value = nn::combine(b, loc, op.getKind(), value, element);
      }
    }
    return true;
  }

  int64_t sumAt(int64_t op, int64_t chunk, int64_t lane) const {
    return (op * schedule.chunks + chunk) * schedule.width + lane;
  }

  /// Returns the memory of the output of a sum.
  Value memoryOf(nn::ReduceOp op) {
    auto outputs = yield->getOperands();
    auto number = llvm::find(outputs, op.getResult()) - outputs.begin();
    return function.getBody().getArgument(inputs + number);
  }

  /// Stores the sums of a block that takes one row at a time.
  void storeOwnSums() {
    LinearIndex part = addDim(schedule.blocks, block).times(form.columns);
    for (int64_t number = 0; number < schedule.chunks; ++number) {
      Chunk chunk = unrolled(number);
      Outputs made;
      for (auto [i, sum] : llvm::enumerate(form.sums))
        for (int64_t lane = 0; lane < schedule.width; ++lane)
          made.push_back({memoryOf(sum.first), chunk.start.plus(part).plus(lane),
                          columnSums[sumAt(i, number, lane)]});
      storeWhere(chunk.inside, made);
    }
  }

  /// Adds up the sums of the rows side by side, in order, and stores them. Each thread has columns
  /// that are a block's threads apart.
  void storeSums() {
    LinearIndex part = addDim(schedule.blocks, block).times(form.columns);
    Value shared = exchange.makeShared(schedule.rowsPerBlock * form.columns, b.getF32Type());
    Value start = arith::MulIOp::create(b, loc, slot, index(form.columns));
    Value column = arith::MulIOp::create(b, loc, lane, index(schedule.width));
    start = arith::AddIOp::create(b, loc, start, column);
    for (auto [i, sum] : llvm::enumerate(form.sums)) {
      emitter.nest.setInsertion(0);
      if (i > 0)
        gpu::BarrierOp::create(b, loc);
      for (int64_t number = 0; number < schedule.chunks; ++number) {
        Value inside = unrolled(number).inside;
        OpBuilder::InsertionGuard guard(b);
        if (inside)
          b.setInsertionPoint(
              scf::IfOp::create(b, loc, inside, /*withElseRegion=*/false).thenYield());
        for (int64_t lane = 0; lane < schedule.width; ++lane)
          exchange.store(columnSums[sumAt(i, number, lane)], shared,
                         plus(start, number * schedule.rowThreads * schedule.width + lane));
      }
      gpu::BarrierOp::create(b, loc);
      for (int64_t at = 0; at < form.columns; at += schedule.threads)
        storeSum(sum.first, shared, plus(thread, at), at + schedule.threads > form.columns, part);
    }
  }

  /// Adds up one column and stores it; `partial`: if there is such a column.
  void storeSum(nn::ReduceOp op, Value shared, Value column, bool partial,
                const LinearIndex &part) {
    OpBuilder::InsertionGuard guard(b);
    Value inside = partial ? less(column, form.columns) : Value();
    LinearIndex index = part.plus(addDim(form.columns, column, inside));
    if (inside)
      b.setInsertionPoint(scf::IfOp::create(b, loc, inside, /*withElseRegion=*/false).thenYield());
    Value total;
    for (int64_t row = 0; row < schedule.rowsPerBlock; ++row) {
      Value value = exchange.load(shared, plus(column, row * form.columns), b.getF32Type());
      total = total ? nn::combine(b, loc, op.getKind(), total, value) : value;
    }
    emitter.storeOutputs(NestEmitter::Output{memoryOf(op), index, total});
  }

  /// Whether an output of `count` elements takes the place of an input, which all threads of a row
  /// read before the output is stored.
  bool replacesInput(int64_t count) {
    auto aliases = yield->getParentOp()->getAttrOfType<DenseI64ArrayAttr>("aliases");
    if (!aliases)
      return false;
    return llvm::any_of(llvm::zip(yield->getOperands(), aliases.asArrayRef()), [&](auto pair) {
      auto [output, alias] = pair;
      return alias >= 0 && nn::elements(output) == count;
    });
  }

  /// Emits what a pick sums, with the bits of the sum: -0 becomes 0.
  bool emitPick(const Pick &pick, nn::ReduceOp op) {
    emitter.nest.setInsertion(rowScope);
    Value at = emitter.emit(pick.column, row), inside;
    LinearIndex column;
    if (!at || !emitter.runtimeDim(at, form.columns, column, inside))
      return false;
    Value element = emitter.emit(pick.from, firstColumn.plus(column));
    if (!element)
      return false;
    Value zero = constantLike(b, loc, getElementTypeOrSelf(op.getType()), 0);
    emitter.nest.scope().memo[{op.getResult().getAsOpaquePointer(), row}] =
        arith::AddFOp::create(b, loc, arith::SelectOp::create(b, loc, inside, element, zero), zero);
    return true;
  }

  /// Emits all reductions of a level, in one pass over the row. Sums of powers join their maximum
  /// in a row that is not kept in registers; an element that is picked needs no pass.
  bool emitReductions(unsigned level) {
    SmallVector<nn::ReduceOp> ops;
    SmallVector<std::pair<unsigned, nn::ReduceOp>> powers; // a maximum's number, its sum
    bool picks = false;
    for (Operation &op : *yield->getBlock()) {
      auto found = form.level.find(&op);
      if (found == form.level.end() || found->second != level || done.contains(&op))
        continue;
      auto reduce = cast<nn::ReduceOp>(op);
      if (std::optional<Pick> pick = matchPick(reduce, form); pick && pieces() > 1) {
        if (!emitPick(*pick, reduce))
          return false;
        picks = true;
        continue;
      }
      if (nn::ReduceOp sum = schedule.chunks == 0 ? sumOfPowers(reduce, form) : nn::ReduceOp())
        powers.push_back({ops.size(), sum});
      ops.push_back(reduce);
    }
    // All threads read what was picked before one stores to it. Reductions by several warps have a
    // barrier.
    if (picks && replacesInput(form.rows * form.columns) &&
        (ops.empty() || schedule.rowThreads == kWarp)) {
      emitter.nest.setInsertion(rowScope);
      gpu::BarrierOp::create(b, loc);
    }
    if (ops.empty())
      return true;
    emitter.nest.setInsertion();
    SmallVector<Value> values;
    for (nn::ReduceOp op : ops)
      values.push_back(identity(op));
    for (auto [number, sum] : powers)
      values.push_back(identity(sum));
    if (!forEachChunk(values, [&](const Chunk &chunk, SmallVectorImpl<Value> &carried) {
          SmallVector<Value> before(ArrayRef<Value>{carried});
          for (auto [op, value] : llvm::zip(ops, carried)) {
            Value part = reduceChunk(op, chunk);
            if (!part)
              return false;
            value = nn::combine(b, loc, op.getKind(), value, part);
          }
          for (auto [i, power] : llvm::enumerate(powers)) {
            Value &sum = carried[ops.size() + i];
            sum =
                addPowers(ops[power.first], chunk, before[power.first], carried[power.first], sum);
          }
          return true;
        }))
      return false;
    emitter.nest.setInsertion();
    auto finish = [&](nn::ReduceOp op, Value value) {
      done.insert(op);
      return emitter.nest.scope().memo[{op.getResult().getAsOpaquePointer(), row}] =
                 reduceThreads(op.getKind(), value);
    };
    SmallVector<Value> whole;
    for (auto [op, value] : llvm::zip(ops, values))
      whole.push_back(finish(op, value));
    for (auto [i, power] : llvm::enumerate(powers)) {
      auto [number, sum] = power;
      Value factor = powerOf(values[number], whole[number]);
      finish(sum, arith::MulFOp::create(b, loc, values[ops.size() + i], factor));
    }
    return true;
  }

  /// Sums of columns so far: of each op in the form's order, of each element of each chunk.
  SmallVector<Value> columnSums;
  SmallPtrSet<Operation *, 4> done; ///< reductions of later levels that are emitted
};

} // namespace

bool cuda::emitKernel(OpBuilder &b, gpu::GPUFuncOp function, Region &body, const RowForm &form,
                      const GpuSchedule &schedule) {
  if (schedule.transposes)
    return emitTransposes(b, function, body, form, schedule);
  return schedule.strip > 0 ? emitColumns(b, function, body, form, schedule)
                            : GpuKernel(b, function, body, form, schedule).run();
}
