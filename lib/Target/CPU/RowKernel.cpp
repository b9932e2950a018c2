//===- RowKernel.cpp - CPU loops of generated kernels ---------------------===//
//
// A form with rows: the rows run in parallel; there is one pass over a row per stage,
// with lanes along its innermost loop. A flat form: lanes run along the elements; for
// sums over rows that is along columns. The bits of the results depend on shapes and
// lane width only.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Emit/Reduction.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Target/CPU/CPU.h"
#include "lib/Target/CPU/Kernels/Kernels.h"
#include "lib/Target/CPU/SegmentKernel.h"
#include "lib/Target/CPU/VectorEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;

namespace {

/// Emits one kernel from one form.
class RowKernel {
public:
  RowKernel(OpBuilder &b, func::FuncOp function, Region &body, const RowForm &form, int64_t lanes)
      : b(b), function(function), loc(function.getLoc()), form(form),
        yield(body.front().getTerminator()), emitter(b, loc, lanes) {
    Block *entry = &function.getBody().front();
    for (auto [argument, memref] : llvm::zip(body.front().getArguments(), entry->getArguments()))
      emitter.bind(argument, memref);
    inputs = body.front().getNumArguments();
    begin = entry->getArgument(entry->getNumArguments() - 2);
    end = entry->getArgument(entry->getNumArguments() - 1);
    emitter.nest.pushScope(entry);
  }

  bool run() {
    if (form.flat ? !emitFlat() : !emitRows())
      return false;
    emitter.nest.setInsertion(0);
    func::ReturnOp::create(b, loc);
    return true;
  }

  Refinement refinement() const {
    return emitter.refinement().value_or(Refinement{Refinement::Unsupported});
  }
  unsigned failedStage() const { return stage; }
  unsigned failedBox() const { return box; }

private:
  bool emitOutputs(int64_t count, const LinearIndex &index) {
    ValueRange memrefs = ValueRange(function.getArguments()).drop_front(inputs).drop_back(2);
    SmallVector<NestEmitter::Output> outputs;
    if (!emitter.emitOutputs(yield, count, memrefs, index, outputs))
      return false;
    emitter.nest.setInsertion();
    emitter.storeOutputs(outputs);
    return true;
  }

  bool emitFlat() {
    int64_t lanes = emitter.laneCount();
    Value middle = end;
    auto body = [&](Value lower, Value upper, bool masked) {
      scf::ForOp loop = emitter.nest.openLoop(lower, upper, lanes, {});
      LinearIndex index =
          emitter.addLanes(form.columns, loop.getInductionVar(), DimOrigin::Flat, 0);
      if (masked) {
        Value left = arith::SubIOp::create(b, loc, end, loop.getInductionVar());
        emitter.setMask(
            vector::CreateMaskOp::create(b, loc, emitter.vectorOf(b.getI1Type()), left));
      }
      bool done = emitOutputs(form.columns, index);
      emitter.setMask(nullptr);
      emitter.endLanes();
      emitter.nest.closeLoop(loop, {});
      return done;
    };
    if (lanes == 1)
      return body(begin, end, false);
    Value size = arith::SubIOp::create(b, loc, end, begin);
    Value rest = arith::RemUIOp::create(b, loc, size, emitter.nest.constantIndex(lanes));
    middle = arith::SubIOp::create(b, loc, end, rest);
    return body(begin, middle, false) && body(middle, end, true);
  }

  bool emitRows() {
    // A single row has no loop: its index is 0, so values that depend only on the row
    // are emitted in the function's body.
    scf::ForOp loop;
    if (form.rows != 1)
      loop = emitter.nest.openLoop(begin, end, 1, {});
    LinearIndex row;
    Value rest = loop ? loop.getInductionVar() : Value();
    int64_t stride = 1;
    for (unsigned i = loop ? form.rowSizes.size() : 0; i-- > 0; stride *= form.rowSizes[i]) {
      int64_t size = form.rowSizes[i];
      Value value = rest;
      if (i > 0) {
        value = arith::RemUIOp::create(b, loc, rest, emitter.nest.constantIndex(size));
        rest = arith::DivUIOp::create(b, loc, rest, emitter.nest.constantIndex(size));
      }
      row = row.plus(emitter.addDim(size, value, DimOrigin::Row, i).times(stride));
    }
    for (stage = 0; stage < form.levels; ++stage)
      if (!emitReductions(row))
        return false;
    bool wide = llvm::any_of(yield->getOperands(),
                             [&](Value output) { return nn::elements(output) != form.rows; });
    box = 0;
    if (wide || form.columns == 1) {
      SmallVector<Value> none;
      for (const Box &part : form.stages[stage]) {
        if (!emitBox(part, row, none, [&](const LinearIndex &index, SmallVectorImpl<Value> &) {
              return emitOutputs(form.rows * form.columns, index);
            }))
          return false;
        ++box;
      }
    }
    // With one column the code above has already emitted the outputs with one element per row.
    if (form.columns != 1 && !emitOutputs(form.rows, row))
      return false;
    if (loop)
      emitter.nest.closeLoop(loop, {});
    return true;
  }

  /// Emits all reductions of this level, in one pass over the row.
  bool emitReductions(const LinearIndex &row) {
    SmallVector<nn::ReduceOp> ops;
    for (Operation &op : *yield->getBlock())
      if (auto found = form.level.find(&op); found != form.level.end() && found->second == stage)
        ops.push_back(cast<nn::ReduceOp>(op));
    int64_t lanes = emitter.laneCount();
    SmallVector<Value> values;
    emitter.nest.setInsertion();
    for (nn::ReduceOp op : ops) {
      Type element = cast<RankedTensorType>(op.getInput().getType()).getElementType();
      Type type = lanes > 1 ? Type(emitter.vectorOf(element)) : element;
      values.push_back(nn::identityOf(b, loc, op.getKind(), type));
    }
    box = 0;
    for (const Box &part : form.stages[stage]) {
      if (!emitBox(part, row, values,
                   [&](const LinearIndex &index, SmallVectorImpl<Value> &carried) {
                     for (auto [i, op] : llvm::enumerate(ops)) {
                       Value element = emitter.emit(op.getInput(), index);
                       if (!element)
                         return false;
                       emitter.nest.setInsertion();
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
    emitter.nest.setInsertion();
    for (auto [op, value] : llvm::zip(ops, values)) {
      nn::ReduceKind kind = op.getKind();
      if (lanes > 1)
        value = foldLanes(b, loc, value,
                          [&](Value x, Value y) { return nn::combine(b, loc, kind, x, y); });
      emitter.nest.scope().memo[{op.getResult().getAsOpaquePointer(), row}] = value;
    }
    return true;
  }

  using Body = llvm::function_ref<bool(const LinearIndex &, SmallVectorImpl<Value> &)>;

  /// Emits the loops of a box, with vectors along the innermost loop. `values` are iteration
  /// arguments of all loops.
  bool emitBox(const Box &part, const LinearIndex &row, SmallVectorImpl<Value> &values, Body body) {
    return emitLoops(part, 0, row.times(form.columns).plus(part.start), values, body);
  }

  bool emitLoops(const Box &part, unsigned position, const LinearIndex &index,
                 SmallVectorImpl<Value> &values, Body body) {
    const Box::Loop &dim = part.loops[position];
    bool innermost = position + 1 == part.loops.size();
    int64_t lanes = innermost ? emitter.laneCount() : 1;
    int64_t whole = dim.size / lanes * lanes;
    auto run = [&](int64_t lower, int64_t upper, bool masked) {
      scf::ForOp loop = emitter.nest.openLoop(emitter.nest.constantIndex(lower),
                                              emitter.nest.constantIndex(upper), lanes, values);
      if (!values.empty())
        values.assign(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
      Value at = loop.getInductionVar();
      LinearIndex step = innermost ? emitter.addLanes(dim.size, at, DimOrigin::Column, position)
                                   : emitter.addDim(dim.size, at, DimOrigin::Column, position);
      LinearIndex here = index.plus(step.times(dim.stride));
      if (masked) {
        Value left = emitter.nest.constantIndex(upper - lower);
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
      ValueRange results = emitter.nest.closeLoop(loop, values);
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
  const RowForm &form;
  Operation *yield;
  VectorEmitter emitter;
  Value begin, end;
  unsigned inputs = 0, stage = 0, box = 0;
};

func::FuncOp createFunction(OpBuilder &b, ModuleOp module, StringRef name, Region &body) {
  SmallVector<Type> types = memoryTypes(body);
  types.append(2, b.getIndexType());
  b.setInsertionPointToEnd(module.getBody());
  auto function = func::FuncOp::create(b, body.getLoc(), name, b.getFunctionType(types, {}));
  function.addEntryBlock();
  return function;
}

int64_t rowGrain(const RowForm &form, int64_t lanes) {
  constexpr int64_t elementsAtLeast = 4096; // below it the cost of a thread exceeds its benefit
  if (form.flat)
    return form.loops ? lanes : llvm::divideCeil(elementsAtLeast, lanes) * lanes;
  return std::max<int64_t>(1, elementsAtLeast / std::max<int64_t>(1, form.columns));
}

FailureOr<KernelInfo> generateOwn(OpBuilder &b, func::FuncOp function, OwnKernelForm form,
                                  Region &body, int64_t lanes) {
  auto op = cast<cpu::OwnKernelOpInterface>(form.op);
  Block *entry = &function.getBody().front();
  b.setInsertionPointToEnd(entry);
  IRMapping buffers;
  buffers.map(body.getArguments(), entry->getArguments().take_front(body.getNumArguments()));
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(buffers.lookup(operand));
  auto arguments = ValueRange(entry->getArguments());
  ValueRange results = arguments.slice(body.getNumArguments(), op->getNumResults());
  ValueRange bounds = arguments.take_back(2);
  for (auto [i, cast] : llvm::enumerate(form.casts))
    cast.memref = arguments[body.getNumArguments() + op->getNumResults() + i];
  if (failed(form.casts.empty()
                 ? op.emit(b, operands, results, bounds[0], bounds[1], lanes)
                 : op.emitWithCasts(b, operands, results, form.casts, bounds[0], bounds[1], lanes)))
    return failure();
  func::ReturnOp::create(b, function.getLoc());
  return KernelInfo{op.getRows(), op.getGrain(), op.getScratch()};
}

} // namespace

FailureOr<KernelInfo> CpuTarget::generateKernel(ModuleOp module, StringRef name,
                                                Region &body) const {
  OpBuilder b(module.getContext());
  OwnKernelForm own = findOwnKernelForm(body);
  if (auto op = dyn_cast_or_null<cpu::OwnKernelOpInterface>(own.op);
      op && (own.casts.empty() || op.storesCasts()))
    return generateOwn(b, createFunction(b, module, name, body), own, body, lanes);
  FailureOr<SegmentForm> segments = findSegmentForm(body);
  if (failed(segments))
    return failure();
  if (segments->kind != SegmentForm::None)
    return cpu::generateSegments(b, createFunction(b, module, name, body), body, *segments, lanes);
  FailureOr<RowForm> form = chooseRowForm(body);
  if (failed(form))
    return failure();
  constexpr int attempts = 256;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    int64_t width = form->scalar ? 1 : lanes;
    // For sums over rows, vectors are wider than a register, so that several sums run at once.
    if (form->flat && form->loops && width > 1 && form->columns >= 4 * width)
      width *= 4;
    func::FuncOp function = createFunction(b, module, name, body);
    RowKernel kernel(b, function, body, *form, width);
    if (kernel.run())
      return KernelInfo{form->parts(), rowGrain(*form, width), 0};
    function.erase();
    if (!refine(*form, kernel.refinement(), kernel.failedStage(), kernel.failedBox()))
      break;
  }
  return body.getParentOp()->emitError() << "no schedule found for this kernel";
}
