//===- RowKernel.cpp - CPU schedules of generated kernels -----------------===//
//
// There are two schedules. Rows: outer rows run in parallel; there is one pass over
// a row per level of row reductions and one for the outputs, with lanes along the
// row. Flat: every output has N elements, with lanes along them; any other reduction
// is a loop inside an element (for sums over rows, lanes run along columns).
//
// The dimensions begin as coarse as possible. If an op needs finer ones (a
// transposition, a concatenation), emission fails with a refinement and starts
// again. The bits of the results depend on shapes and lane width only.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Emit/Reduction.h"
#include "lib/Target/CPU/CPU.h"
#include "lib/Target/CPU/KernelEmitter.h"
#include "lib/Target/CPU/Kernels/Kernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;

namespace {

/// A part of a row: column = start + sum of stride * dimension.
struct Box {
  int64_t start;
  struct Loop {
    int64_t size, stride;
  };
  SmallVector<Loop> loops;
  int64_t outer() const {
    int64_t product = 1;
    for (const Loop &loop : ArrayRef(loops).drop_back())
      product *= loop.size;
    return product;
  }
};

/// A schedule. It is refined until the kernel can be emitted.
struct Schedule {
  bool flat = false;
  bool scalar = false;
  int64_t rows = 1, columns = 1; // flat: columns is the number of elements
  SmallVector<int64_t> rowSizes;
  /// The boxes of each level of row reductions; those of the outputs last.
  SmallVector<SmallVector<Box>> stages;
  DenseMap<Operation *, unsigned> level; // of row reductions
  unsigned levels = 0;
  /// Whether there is a reduction that is a loop inside an element.
  bool loops = false;
  /// Whether some outputs have one element per row, which fixes the rows.
  bool rowOutputs = false;
};

int64_t elements(Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); }

/// Whether a reduction is over trailing dimensions, so that it has one result element per row.
bool reducesRows(nn::ReduceOp op) {
  int64_t rank = cast<RankedTensorType>(op.getInput().getType()).getRank();
  int64_t first = rank - op.getDims().size();
  for (auto [i, dim] : llvm::enumerate(op.getDims()))
    if (dim != first + int64_t(i))
      return false;
  return true;
}

void initialStages(Schedule &schedule) {
  schedule.stages.assign(schedule.levels + 1, {Box{0, {{schedule.columns, 1}}}});
}

/// Chooses rows and columns from the reductions over rows, the widest first.
FailureOr<Schedule> chooseSchedule(Region &body) {
  Block &block = body.front();
  Operation *yield = block.getTerminator();
  if (yield->getNumOperands() == 0)
    return yield->emitOpError() << "a kernel without outputs";
  Schedule schedule;
  auto fits = [&](int64_t rows, int64_t columns) {
    return llvm::all_of(yield->getOperands(), [&](Value output) {
      return elements(output) == rows || elements(output) == rows * columns;
    });
  };
  nn::ReduceOp leading;
  for (auto op : block.getOps<nn::ReduceOp>())
    if (reducesRows(op) && elements(op.getResult()) > 0 &&
        fits(elements(op.getResult()), elements(op.getInput()) / elements(op.getResult())) &&
        (!leading || elements(op.getInput()) > elements(leading.getInput())))
      leading = op;
  if (leading) {
    schedule.rows = elements(leading.getResult());
    schedule.columns = elements(leading.getInput()) / schedule.rows;
    DenseMap<Value, unsigned> needs; // number of levels that must be complete before the value
    for (Operation &op : block.without_terminator()) {
      unsigned level = 0;
      for (Value operand : op.getOperands())
        level = std::max(level, needs.lookup(operand));
      auto reduce = dyn_cast<nn::ReduceOp>(op);
      if (reduce && reducesRows(reduce) && elements(reduce.getResult()) == schedule.rows &&
          elements(reduce.getInput()) == schedule.rows * schedule.columns) {
        schedule.level[&op] = level++;
        schedule.levels = std::max(schedule.levels, level);
      } else if (reduce) {
        schedule.loops = true;
      }
      for (Value result : op.getResults())
        needs[result] = level;
    }
    schedule.rowSizes = {schedule.rows};
    initialStages(schedule);
    return schedule;
  }
  schedule.loops = !block.getOps<nn::ReduceOp>().empty();
  int64_t least = INT64_MAX, most = 0;
  for (Value output : yield->getOperands()) {
    least = std::min(least, elements(output));
    most = std::max(most, elements(output));
  }
  schedule.columns = most;
  schedule.flat = least == most;
  schedule.rowOutputs = !schedule.flat;
  if (!schedule.flat && least > 0 && most % least == 0) {
    schedule.rows = least;
    schedule.columns = most / least;
    schedule.rowSizes = {schedule.rows};
    initialStages(schedule);
  }
  for (Value output : yield->getOperands())
    if (elements(output) != most && (least == 0 || most % least != 0 || elements(output) != least))
      return yield->emitOpError() << "outputs of " << elements(output) << " and " << most
                                  << " elements have no common rows";
  return schedule;
}

/// Applies a refinement to the schedule. Returns false if that is not possible.
bool refine(Schedule &schedule, const Refinement &asked, unsigned stage, unsigned box) {
  if (asked.kind == Refinement::Unsupported)
    return false;
  if (asked.kind == Refinement::Scalar) {
    bool first = !schedule.scalar;
    schedule.scalar = true;
    return first;
  }
  if (schedule.flat) {
    schedule.flat = false;
    if (asked.kind == Refinement::Split) {
      schedule.rows = schedule.columns / asked.at;
      schedule.columns = asked.at;
    } else {
      schedule.rows = 1;
    }
    schedule.rowSizes = {schedule.rows};
    initialStages(schedule);
    if (asked.kind == Refinement::Split)
      return true;
    return refine(schedule, {asked.kind, DimOrigin::Column, 0, asked.at}, 0, 0);
  }
  if (asked.origin == DimOrigin::Row) {
    if (asked.kind != Refinement::Split)
      return false;
    int64_t size = schedule.rowSizes[asked.position];
    schedule.rowSizes[asked.position] = size / asked.at;
    schedule.rowSizes.insert(schedule.rowSizes.begin() + asked.position + 1, asked.at);
    return true;
  }
  SmallVector<Box> &boxes = schedule.stages[stage];
  Box::Loop &loop = boxes[box].loops[asked.position];
  if (asked.kind == Refinement::Break) {
    Box after = boxes[box];
    after.start += asked.at * loop.stride;
    after.loops[asked.position].size = loop.size - asked.at;
    loop.size = asked.at;
    boxes.insert(boxes.begin() + box + 1, after);
    return true;
  }
  // Without row reductions and with a single loop, the outer part of the split becomes rows.
  if (schedule.levels == 0 && !schedule.rowOutputs && boxes.size() == 1 &&
      boxes[0].loops.size() == 1) {
    int64_t outer = loop.size / asked.at;
    schedule.rows *= outer;
    schedule.rowSizes.push_back(outer);
    schedule.columns = asked.at;
    initialStages(schedule);
    return true;
  }
  Box::Loop inner{asked.at, loop.stride};
  loop.size /= asked.at;
  loop.stride *= asked.at;
  boxes[box].loops.insert(boxes[box].loops.begin() + asked.position + 1, inner);
  return true;
}

/// Emits one kernel with one schedule.
class RowKernel {
public:
  RowKernel(OpBuilder &b, func::FuncOp function, Region &body, const Schedule &schedule,
            int64_t lanes)
      : b(b), function(function), loc(function.getLoc()), schedule(schedule),
        yield(body.front().getTerminator()), emitter(b, loc, lanes) {
    Block *entry = &function.getBody().front();
    for (auto [argument, memref] : llvm::zip(body.front().getArguments(), entry->getArguments()))
      emitter.bind(argument, memref);
    inputs = body.front().getNumArguments();
    begin = entry->getArgument(entry->getNumArguments() - 2);
    end = entry->getArgument(entry->getNumArguments() - 1);
    emitter.pushScope(entry);
  }

  bool run() {
    if (schedule.flat ? !emitFlat() : !emitRows())
      return false;
    emitter.setInsertion(0);
    func::ReturnOp::create(b, loc);
    return true;
  }

  Refinement refinement() const {
    return emitter.refinement().value_or(Refinement{Refinement::Unsupported});
  }
  unsigned failedStage() const { return stage; }
  unsigned failedBox() const { return box; }

private:
  Value buffer(unsigned output) { return function.getArgument(inputs + output); }

  /// Emits all outputs of `count` elements at `index`, then stores them: a result may
  /// share an operand's buffer.
  bool emitOutputs(int64_t count, const LinearIndex &index) {
    SmallVector<std::pair<unsigned, Value>> stores;
    for (auto [i, output] : llvm::enumerate(yield->getOperands()))
      if (elements(output) == count) {
        Value element = emitter.emit(output, index);
        if (!element)
          return false;
        stores.push_back({i, element});
      }
    emitter.setInsertion(emitter.depth());
    for (auto [i, element] : stores)
      emitter.store(buffer(i), index, element);
    return true;
  }

  bool emitFlat() {
    int64_t lanes = emitter.laneCount();
    Value middle = end;
    auto body = [&](Value lower, Value upper, bool masked) {
      scf::ForOp loop = emitter.openLoop(lower, upper, lanes, {});
      LinearIndex index = emitter.addDim(schedule.columns, loop.getInductionVar(), DimOrigin::Flat,
                                         0, /*isLane=*/true);
      if (masked) {
        Value left = arith::SubIOp::create(b, loc, end, loop.getInductionVar());
        emitter.setMask(
            vector::CreateMaskOp::create(b, loc, emitter.vectorOf(b.getI1Type()), left));
      }
      bool done = emitOutputs(schedule.columns, index);
      emitter.setMask(nullptr);
      emitter.endLanes();
      emitter.closeLoop(loop, {});
      return done;
    };
    if (lanes == 1)
      return body(begin, end, false);
    Value size = arith::SubIOp::create(b, loc, end, begin);
    Value rest = arith::RemUIOp::create(b, loc, size, emitter.constantIndex(lanes));
    middle = arith::SubIOp::create(b, loc, end, rest);
    return body(begin, middle, false) && body(middle, end, true);
  }

  bool emitRows() {
    // A single row has no loop: its index is 0, so values that depend only on the row
    // are emitted in the function's body.
    scf::ForOp loop;
    if (schedule.rows != 1)
      loop = emitter.openLoop(begin, end, 1, {});
    LinearIndex row;
    Value rest = loop ? loop.getInductionVar() : Value();
    int64_t stride = 1;
    for (unsigned i = loop ? schedule.rowSizes.size() : 0; i-- > 0;
         stride *= schedule.rowSizes[i]) {
      int64_t size = schedule.rowSizes[i];
      Value value = rest;
      if (i > 0) {
        value = arith::RemUIOp::create(b, loc, rest, emitter.constantIndex(size));
        rest = arith::DivUIOp::create(b, loc, rest, emitter.constantIndex(size));
      }
      row = row.plus(emitter.addDim(size, value, DimOrigin::Row, i).times(stride));
    }
    for (stage = 0; stage < schedule.levels; ++stage)
      if (!emitReductions(row))
        return false;
    bool wide = llvm::any_of(yield->getOperands(),
                             [&](Value output) { return elements(output) != schedule.rows; });
    box = 0;
    if (wide || schedule.columns == 1) {
      SmallVector<Value> none;
      for (const Box &part : schedule.stages[stage]) {
        if (!emitBox(part, row, none, [&](const LinearIndex &index, SmallVectorImpl<Value> &) {
              return emitOutputs(schedule.rows * schedule.columns, index);
            }))
          return false;
        ++box;
      }
    }
    // With one column the code above has already emitted the outputs with one element per row.
    if (schedule.columns != 1 && !emitOutputs(schedule.rows, row))
      return false;
    if (loop)
      emitter.closeLoop(loop, {});
    return true;
  }

  /// Emits all reductions of this level, in one pass over the row.
  bool emitReductions(const LinearIndex &row) {
    SmallVector<nn::ReduceOp> ops;
    for (Operation &op : *yield->getBlock())
      if (auto found = schedule.level.find(&op);
          found != schedule.level.end() && found->second == stage)
        ops.push_back(cast<nn::ReduceOp>(op));
    int64_t lanes = emitter.laneCount();
    SmallVector<Value> values;
    emitter.setInsertion(emitter.depth());
    for (nn::ReduceOp op : ops) {
      Type element = cast<RankedTensorType>(op.getInput().getType()).getElementType();
      Type type = lanes > 1 ? Type(emitter.vectorOf(element)) : element;
      values.push_back(nn::identityOf(b, loc, op.getKind(), type));
    }
    box = 0;
    for (const Box &part : schedule.stages[stage]) {
      if (!emitBox(part, row, values,
                   [&](const LinearIndex &index, SmallVectorImpl<Value> &carried) {
                     for (auto [i, op] : llvm::enumerate(ops)) {
                       Value element = emitter.emit(op.getInput(), index);
                       if (!element)
                         return false;
                       emitter.setInsertion(emitter.depth());
                       Value next = carried[i];
                       Value operands[] = {next, element};
                       matchLanes(b, loc, operands);
                       next = nn::combine(b, loc, op.getKind(), operands[0], operands[1]);
                       if (Value mask = emitter.currentMask())
                         next = arith::SelectOp::create(b, loc, mask, next, carried[i]);
                       carried[i] = next;
                     }
                     return true;
                   }))
        return false;
      ++box;
    }
    emitter.setInsertion(emitter.depth());
    for (auto [op, value] : llvm::zip(ops, values)) {
      nn::ReduceKind kind = op.getKind();
      if (lanes > 1)
        value = foldLanes(b, loc, value,
                          [&](Value x, Value y) { return nn::combine(b, loc, kind, x, y); });
      emitter.scope().memo[{op.getResult().getAsOpaquePointer(), row}] = value;
    }
    return true;
  }

  using Body = llvm::function_ref<bool(const LinearIndex &, SmallVectorImpl<Value> &)>;

  /// Emits the loops of a box, with vectors along the innermost loop. `values` are iteration
  /// arguments of all loops.
  bool emitBox(const Box &part, const LinearIndex &row, SmallVectorImpl<Value> &values, Body body) {
    return emitLoops(part, 0, row.times(schedule.columns).plus(part.start), values, body);
  }

  bool emitLoops(const Box &part, unsigned position, const LinearIndex &index,
                 SmallVectorImpl<Value> &values, Body body) {
    const Box::Loop &dim = part.loops[position];
    bool innermost = position + 1 == part.loops.size();
    int64_t lanes = innermost ? emitter.laneCount() : 1;
    int64_t whole = dim.size / lanes * lanes;
    auto run = [&](int64_t lower, int64_t upper, bool masked) {
      scf::ForOp loop = emitter.openLoop(emitter.constantIndex(lower), emitter.constantIndex(upper),
                                         lanes, values);
      if (!values.empty())
        values.assign(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
      LinearIndex here = index.plus(
          emitter.addDim(dim.size, loop.getInductionVar(), DimOrigin::Column, position, innermost)
              .times(dim.stride));
      if (masked) {
        Value left = emitter.constantIndex(upper - lower);
        emitter.setMask(
            vector::CreateMaskOp::create(b, loc, emitter.vectorOf(b.getI1Type()), left));
      }
      bool done =
          innermost ? body(here, values) : emitLoops(part, position + 1, here, values, body);
      emitter.setMask(nullptr);
      if (innermost)
        emitter.endLanes();
      if (!done)
        return false;
      ValueRange results = emitter.closeLoop(loop, values);
      values.assign(results.begin(), results.end());
      return true;
    };
    if (whole > 0 && !run(0, whole, false))
      return false;
    return whole == dim.size || run(whole, dim.size, true);
  }

  OpBuilder &b;
  func::FuncOp function;
  Location loc;
  const Schedule &schedule;
  Operation *yield;
  KernelEmitter emitter;
  Value begin, end;
  unsigned inputs = 0, stage = 0, box = 0;
};

func::FuncOp createFunction(OpBuilder &b, ModuleOp module, StringRef name, Region &body) {
  SmallVector<Type> types;
  auto add = [&](Value value) {
    auto tensor = cast<RankedTensorType>(value.getType());
    types.push_back(
        MemRefType::get({tensor.getNumElements()}, memoryType(tensor.getElementType())));
  };
  llvm::for_each(body.getArguments(), add);
  llvm::for_each(body.front().getTerminator()->getOperands(), add);
  types.append(2, b.getIndexType());
  b.setInsertionPointToEnd(module.getBody());
  auto function = func::FuncOp::create(b, body.getLoc(), name, b.getFunctionType(types, {}));
  function.addEntryBlock();
  return function;
}

int64_t rowGrain(const Schedule &schedule, int64_t lanes) {
  constexpr int64_t elementsAtLeast = 4096; // below it the cost of a thread exceeds its benefit
  if (schedule.flat)
    return schedule.loops ? lanes : llvm::divideCeil(elementsAtLeast, lanes) * lanes;
  return std::max<int64_t>(1, elementsAtLeast / std::max<int64_t>(1, schedule.columns));
}

/// Returns the only op of a region if it has a dedicated kernel, else null.
cpu::OwnKernelOpInterface ownKernel(Region &body) {
  Block &block = body.front();
  if (block.getOperations().size() != 2)
    return nullptr;
  auto op = dyn_cast<cpu::OwnKernelOpInterface>(block.front());
  if (!op || !llvm::equal(op->getResults(), block.getTerminator()->getOperands()))
    return nullptr;
  return op;
}

FailureOr<KernelInfo> generateOwn(OpBuilder &b, func::FuncOp function, cpu::OwnKernelOpInterface op,
                                  Region &body, int64_t lanes) {
  Block *entry = &function.getBody().front();
  b.setInsertionPointToEnd(entry);
  IRMapping buffers;
  buffers.map(body.getArguments(), entry->getArguments().take_front(body.getNumArguments()));
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(buffers.lookup(operand));
  ValueRange results =
      ValueRange(entry->getArguments()).slice(body.getNumArguments(), op->getNumResults());
  ValueRange bounds = ValueRange(entry->getArguments()).take_back(2);
  if (failed(op.emit(b, operands, results, bounds[0], bounds[1], lanes)))
    return failure();
  func::ReturnOp::create(b, function.getLoc());
  return KernelInfo{op.getRows(), op.getGrain(), op.getScratch()};
}

} // namespace

FailureOr<KernelInfo> CpuTarget::generateKernel(ModuleOp module, StringRef name,
                                                Region &body) const {
  OpBuilder b(module.getContext());
  if (cpu::OwnKernelOpInterface op = ownKernel(body))
    return generateOwn(b, createFunction(b, module, name, body), op, body, lanes);
  FailureOr<Schedule> schedule = chooseSchedule(body);
  if (failed(schedule))
    return failure();
  constexpr int attempts = 256;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    int64_t width = schedule->scalar ? 1 : lanes;
    // For sums over rows, vectors are wider than a register, so that several sums run at once.
    if (schedule->flat && schedule->loops && width > 1 && schedule->columns >= 4 * width)
      width *= 4;
    func::FuncOp function = createFunction(b, module, name, body);
    RowKernel kernel(b, function, body, *schedule, width);
    if (kernel.run())
      return KernelInfo{schedule->flat ? schedule->columns : schedule->rows,
                        rowGrain(*schedule, width), 0};
    function.erase();
    if (!refine(*schedule, kernel.refinement(), kernel.failedStage(), kernel.failedBox()))
      break;
  }
  return body.getParentOp()->emitError() << "no schedule found for this kernel";
}
