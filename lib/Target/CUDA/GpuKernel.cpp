//===- GpuKernel.cpp - Kernels of rows, columns and elements --------------===//
//
// All threads of a block take the same path, so that barriers and shuffles are
// reached by all: a thread beyond the last element loads zeros and stores nothing.
// The bits of the results depend on shapes only.
//
//===----------------------------------------------------------------------===//
#include "lib/Target/CUDA/GpuKernel.h"
#include "dialects/nn/Emit/Reduction.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Target/CUDA/ThreadEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

namespace {

constexpr int64_t kWarp = 32;

class GpuKernel {
public:
  GpuKernel(OpBuilder &b, gpu::GPUFuncOp function, Region &body, const RowForm &form,
            const GpuSchedule &schedule)
      : b(b), function(function), loc(function.getLoc()), form(form), schedule(schedule),
        yield(body.front().getTerminator()), emitter(b, loc) {
    Block *entry = &function.getBody().front();
    for (auto [argument, memref] : llvm::zip(body.front().getArguments(), entry->getArguments()))
      emitter.bind(argument, memref);
    inputs = body.front().getNumArguments();
    outputs = yield->getNumOperands();
    emitter.pushScope(entry);
  }

  bool run() {
    block = gpu::BlockIdOp::create(b, loc, gpu::Dimension::x);
    thread = gpu::ThreadIdOp::create(b, loc, gpu::Dimension::x);
    if (schedule.strip > 0 ? !emitColumns() : form.flat ? !emitFlat() : !emitRows())
      return false;
    emitter.setInsertion(0);
    gpu::ReturnOp::create(b, loc);
    emitter.finishAccesses();
    return true;
  }

private:
  using Outputs = SmallVector<NestEmitter::Output>;

  LinearIndex addDim(int64_t size, Value value, Value guard = {}) {
    return emitter.addDim(size, value, DimOrigin::Other, 0, guard);
  }
  Value index(int64_t value) { return emitter.constantIndex(value); }
  Value plus(Value lhs, int64_t rhs) {
    return rhs == 0 ? lhs : Value(arith::AddIOp::create(b, loc, lhs, index(rhs)));
  }
  Value less(Value lhs, int64_t rhs) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, lhs, index(rhs));
  }
  Value both(Value lhs, Value rhs) {
    if (!lhs || !rhs)
      return lhs ? lhs : rhs;
    return arith::AndIOp::create(b, loc, lhs, rhs);
  }

  /// Appends the outputs with `count` elements at `width` neighbours from `start`.
  bool emitOutputs(int64_t count, const LinearIndex &start, int64_t width, Outputs &made) {
    ValueRange memrefs = ValueRange(function.getBody().getArguments()).slice(inputs, outputs);
    for (int64_t i = 0; i < width; ++i)
      if (!emitter.emitOutputs(yield, count, memrefs, start.plus(i), made))
        return false;
    return true;
  }

  /// Stores where `condition` holds; null: always.
  void storeWhere(Value condition, ArrayRef<NestEmitter::Output> made) {
    if (made.empty())
      return;
    emitter.setInsertion(emitter.depth());
    OpBuilder::InsertionGuard guard(b);
    if (condition) {
      auto branch = scf::IfOp::create(b, loc, condition, /*withElseRegion=*/false);
      b.setInsertionPoint(branch.thenYield());
    }
    emitter.storeOutputs(made);
  }

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
      emitter.setInsertion(0);
      LinearIndex unit = start.plus(number * schedule.threads);
      Value condition;
      if (!whole)
        std::tie(unit, condition) = guarded(plus(first, number * schedule.threads), units);
      Outputs made;
      for (int64_t part = 0; part < schedule.parts; ++part)
        if (!emitOutputs(form.columns, chunkOf(unit, part), schedule.width, made))
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

  /// Returns a dimension of the value, guarded by whether it is below `size`, and the guard.
  std::pair<LinearIndex, Value> guarded(Value value, int64_t size) {
    Value inside = less(value, size);
    return {addDim(size, value, inside), inside};
  }

  // ---- columns

  /// Reduces the columns of this block's strip. Each thread reduces its rows in order, then the
  /// threads of the first row reduce what those of a column have, in order.
  bool emitColumns() {
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
    scf::ForOp loop = emitter.openLoop(first, index(schedule.each), down, values);
    values.assign(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
    LinearIndex at = addDim(schedule.each, loop.getInductionVar()).times(schedule.inner);
    at = at.plus(outer.times(schedule.each * schedule.inner)).plus(column);
    for (auto [i, value] : llvm::enumerate(values)) {
      nn::ReduceOp op = ops[i / schedule.width];
      Value element = emitter.emit(op.getInput(), at.plus(int64_t(i) % schedule.width));
      if (!element)
        return false;
      emitter.setInsertion(emitter.depth());
      value = nn::combine(b, loc, op.getKind(), value, element);
    }
    ValueRange sums = emitter.closeLoop(loop, values);
    emitter.setInsertion(0);
    return storeColumns(ops, SmallVector<Value>(sums), first, place, strip, outer, down);
  }

  /// Reduces the values of `down` threads per column and stores the outputs. `sums` are `width` per
  /// op, of the thread at row `first` and place `place` of the strip.
  bool storeColumns(MutableArrayRef<nn::ReduceOp> ops, ArrayRef<Value> sums, Value first,
                    Value place, Value strip, const LinearIndex &outer, int64_t down) {
    SmallVector<Value> shared;
    Value start = arith::MulIOp::create(b, loc, first, index(schedule.strip));
    start = arith::AddIOp::create(b, loc, start,
                                  arith::MulIOp::create(b, loc, place, index(schedule.width)));
    for (auto [i, op] : llvm::enumerate(ops)) {
      shared.push_back(makeShared(down * schedule.strip, sums[i * schedule.width].getType()));
      for (int64_t lane = 0; lane < schedule.width; ++lane)
        memref::StoreOp::create(b, loc, toMemory(sums[i * schedule.width + lane]), shared.back(),
                                plus(start, lane));
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
        Value part = fromMemory(
            memref::LoadOp::create(b, loc, shared[i], plus(column, row * schedule.strip)), type);
        sum = sum ? nn::combine(b, loc, op.getKind(), sum, part) : part;
      }
      emitter.scope().memo[{op.getResult().getAsOpaquePointer(), result}] = sum;
    }
    Outputs made;
    if (!emitOutputs(form.columns, result, 1, made))
      return false;
    storeWhere(mine, made);
    return true;
  }

  // ---- rows

  /// A chunk of neighbouring columns of the row.
  struct Chunk {
    LinearIndex start;
    Value inside; ///< whether it is this thread's; null: always
  };

  /// Sets the row and this thread's place in it.
  void placeRow() {
    Value value = block;
    lane = thread;
    if (schedule.rowsPerBlock > 1) {
      Value size = index(schedule.rowThreads);
      Value inner = arith::DivUIOp::create(b, loc, thread, size);
      lane = arith::RemUIOp::create(b, loc, thread, size);
      value = arith::MulIOp::create(b, loc, block, index(schedule.rowsPerBlock));
      value = arith::AddIOp::create(b, loc, value, inner);
    }
    if (form.rows % schedule.rowsPerBlock == 0)
      row = addDim(form.rows, value);
    else
      std::tie(row, rowInside) = guarded(value, form.rows);
    laneDim = addDim(schedule.rowThreads, lane);
    firstColumn = row.times(form.columns);
  }

  int64_t pieces() const { return form.columns / schedule.width; }

  /// Returns this thread's chunk `number`, unrolled in the scope of the row.
  Chunk unrolled(int64_t number) {
    if (chunks.size() > size_t(number))
      return chunks[number];
    emitter.setInsertion(0);
    int64_t first = number * schedule.rowThreads;
    LinearIndex piece = laneDim.plus(first);
    Value inside;
    if (first + schedule.rowThreads > pieces())
      std::tie(piece, inside) = guarded(plus(lane, first), pieces());
    chunks.push_back({firstColumn.plus(piece.times(schedule.width)), inside});
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
    emitter.setInsertion(emitter.depth());
    scf::ForOp loop =
        emitter.openLoop(lane, index(pieces()), schedule.rowThreads, ValueRange(values));
    values.assign(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
    LinearIndex piece = addDim(pieces(), loop.getInductionVar());
    if (!body({firstColumn.plus(piece.times(schedule.width)), Value()}, values))
      return false;
    ValueRange results = emitter.closeLoop(loop, values);
    values.assign(results.begin(), results.end());
    return true;
  }

  bool emitRows() {
    placeRow();
    for (unsigned level = 0; level < form.levels; ++level)
      if (!emitReductions(level))
        return false;
    bool wide = llvm::any_of(yield->getOperands(),
                             [&](Value output) { return nn::elements(output) != form.rows; });
    SmallVector<Value> none;
    if (wide && form.columns > 1 &&
        !forEachChunk(none, [&](const Chunk &chunk, SmallVectorImpl<Value> &) {
          Outputs made;
          if (!emitOutputs(form.rows * form.columns, chunk.start, schedule.width, made))
            return false;
          storeWhere(both(rowInside, chunk.inside), made);
          return true;
        }))
      return false;
    Outputs made;
    emitter.setInsertion(0);
    if (!emitOutputs(form.rows, row, 1, made))
      return false;
    if (made.empty())
      return true;
    emitter.setInsertion(0);
    if (replacesInput(form.rows))
      gpu::BarrierOp::create(b, loc);
    storeWhere(both(rowInside, less(lane, 1)), made);
    return true;
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
    emitter.setInsertion(0);
    Value at = emitter.emit(pick.column, row), inside;
    LinearIndex column;
    if (!at || !emitter.runtimeDim(at, form.columns, column, inside))
      return false;
    Value element = emitter.emit(pick.from, firstColumn.plus(column));
    if (!element)
      return false;
    Value zero = constantLike(b, loc, getElementTypeOrSelf(op.getType()), 0);
    emitter.scope().memo[{op.getResult().getAsOpaquePointer(), row}] =
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
      emitter.setInsertion(0);
      gpu::BarrierOp::create(b, loc);
    }
    if (ops.empty())
      return true;
    emitter.setInsertion(emitter.depth());
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
    emitter.setInsertion(emitter.depth());
    auto finish = [&](nn::ReduceOp op, Value value) {
      done.insert(op);
      return emitter.scope().memo[{op.getResult().getAsOpaquePointer(), row}] =
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
                                 reduceHalves(nn::ReduceKind::Sum, powers));
  }

  Value identity(nn::ReduceOp op) {
    return nn::identityOf(b, loc, op.getKind(), getElementTypeOrSelf(op.getInput().getType()));
  }

  /// Reduces the elements of a chunk, by halves.
  Value reduceChunk(nn::ReduceOp op, const Chunk &chunk) {
    SmallVector<Value> elements;
    for (int64_t i = 0; i < schedule.width; ++i) {
      elements.push_back(emitter.emit(op.getInput(), chunk.start.plus(i)));
      if (!elements.back())
        return nullptr;
    }
    emitter.setInsertion(emitter.depth());
    Value sum = reduceHalves(op.getKind(), elements);
    if (chunk.inside)
      sum = arith::SelectOp::create(b, loc, chunk.inside, sum, identity(op));
    return sum;
  }

  /// Reduces a power of two of values.
  Value reduceHalves(nn::ReduceKind kind, ArrayRef<Value> values) {
    if (values.size() == 1)
      return values.front();
    size_t half = values.size() / 2;
    SmallVector<Value> sums;
    for (auto [low, high] : llvm::zip(values.take_front(half), values.drop_front(half)))
      sums.push_back(nn::combine(b, loc, kind, low, high));
    return reduceHalves(kind, sums);
  }

  /// Reduces the values of a row's threads. All get the result: addition commutes, so that both
  /// partners of a shuffle compute the same bits.
  Value reduceThreads(nn::ReduceKind kind, Value value) {
    for (int64_t offset = kWarp / 2; offset > 0; offset /= 2)
      value = nn::combine(b, loc, kind, value, shuffle(value, offset));
    if (schedule.rowThreads == kWarp)
      return value;
    int64_t warps = schedule.rowThreads / kWarp;
    Value shared = makeShared(warps, value.getType());
    Value size = index(kWarp);
    Value warp = arith::DivUIOp::create(b, loc, thread, size);
    Value first = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                        arith::RemUIOp::create(b, loc, thread, size), index(0));
    {
      OpBuilder::InsertionGuard guard(b);
      auto branch = scf::IfOp::create(b, loc, first, /*withElseRegion=*/false);
      b.setInsertionPoint(branch.thenYield());
      memref::StoreOp::create(b, loc, toMemory(value), shared, warp);
    }
    gpu::BarrierOp::create(b, loc);
    SmallVector<Value> sums;
    for (int64_t i = 0; i < warps; ++i)
      sums.push_back(fromMemory(memref::LoadOp::create(b, loc, shared, index(i)), value.getType()));
    return reduceHalves(kind, sums);
  }

  /// Returns memory of the block for elements of a type.
  Value makeShared(int64_t count, Type element) {
    auto type =
        MemRefType::get({count}, memoryType(element), AffineMap(),
                        gpu::AddressSpaceAttr::get(b.getContext(), gpu::AddressSpace::Workgroup));
    return function.addWorkgroupAttribution(type, loc);
  }
  Value toMemory(Value value) {
    return value.getType().isInteger(1)
               ? Value(arith::ExtUIOp::create(b, loc, b.getI8Type(), value))
               : value;
  }
  Value fromMemory(Value value, Type type) {
    return type.isInteger(1) ? Value(arith::TruncIOp::create(b, loc, type, value)) : value;
  }

  /// Returns the value of the thread whose number differs in the bits of `offset`.
  Value shuffle(Value value, int64_t offset) {
    Type type = value.getType();
    Type i32 = b.getI32Type();
    auto exchange = [&](Value word) -> Value {
      return gpu::ShuffleOp::create(b, loc, word, offset, kWarp, gpu::ShuffleMode::XOR)
          .getShuffleResult();
    };
    unsigned bits = type.getIntOrFloatBitWidth();
    if (bits == 32 || bits == 64) {
      Type word = b.getIntegerType(bits);
      Value raw = type == word ? value : Value(arith::BitcastOp::create(b, loc, word, value));
      if (bits == 32) {
        raw = exchange(raw);
      } else {
        Value half = arith::ConstantIntOp::create(b, loc, word, 32);
        Value low = exchange(arith::TruncIOp::create(b, loc, i32, raw));
        Value high = exchange(
            arith::TruncIOp::create(b, loc, i32, arith::ShRUIOp::create(b, loc, raw, half)));
        high = arith::ShLIOp::create(b, loc, arith::ExtUIOp::create(b, loc, word, high), half);
        raw = arith::OrIOp::create(b, loc, arith::ExtUIOp::create(b, loc, word, low), high);
      }
      return type == word ? raw : Value(arith::BitcastOp::create(b, loc, type, raw));
    }
    Type small = b.getIntegerType(bits);
    Value raw =
        isa<FloatType>(type) ? Value(arith::BitcastOp::create(b, loc, small, value)) : value;
    raw = exchange(arith::ExtUIOp::create(b, loc, i32, raw));
    raw = arith::TruncIOp::create(b, loc, small, raw);
    return isa<FloatType>(type) ? Value(arith::BitcastOp::create(b, loc, type, raw)) : raw;
  }

  OpBuilder &b;
  gpu::GPUFuncOp function;
  Location loc;
  const RowForm &form;
  const GpuSchedule &schedule;
  Operation *yield;
  ThreadEmitter emitter;
  unsigned inputs = 0, outputs = 0;
  Value block, thread;
  // A form with rows:
  Value lane; ///< this thread's number among those of its row
  LinearIndex row, laneDim, firstColumn;
  Value rowInside; ///< whether the row exists; null: always
  SmallVector<Chunk> chunks;
  SmallPtrSet<Operation *, 4> done; ///< reductions of later levels that are emitted
};

} // namespace

bool cuda::emitKernel(OpBuilder &b, gpu::GPUFuncOp function, Region &body, const RowForm &form,
                      const GpuSchedule &schedule) {
  return GpuKernel(b, function, body, form, schedule).run();
}
