//===- Optimizer.cpp - Updates of flat groups -----------------------------===//
//
// Elements are updated in parallel. Each segment of a flat group has its own factors. A range of
// elements loops over the segments, clipped to the range, and copies the padding between them. The
// formula is the op's own, rounded after each operation.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Optimizers.h"
#include "dialects/nn/Optimizers/Blocks.h"
#include "dialects/nn/Optimizers/Rounding.h"
#include "dialects/nn/Optimizers/Runs.h"
#include "lib/Target/CPU/Kernels/Kernels.h"
#include "lib/Target/CPU/Kernels/Loops.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numeric>

using namespace mlir;
using namespace shale;
using namespace shale::cpu;
using namespace shale::nn;

namespace {

constexpr int64_t kGrain = 4096;

Value scalarOf(Loops &l, Value memref) {
  return memref::LoadOp::create(l.b, l.loc, memref, ValueRange{l.index(0)});
}

/// The runs as constant data of the kernel.
class RunTable {
public:
  RunTable(Loops &l, ArrayRef<UpdateRun> runs) : l(l) {
    SmallVector<int64_t> places, numbers;
    for (const UpdateRun &run : runs) {
      places.append({run.begin, run.end});
      numbers.push_back(run.shift);
    }
    auto type = [&](int64_t count, Type element) {
      return RankedTensorType::get({count}, element);
    };
    bounds = l.constant(
        "bounds", DenseElementsAttr::get(type(places.size(), l.b.getI64Type()), ArrayRef(places)));
    for (auto [number, table] : llvm::enumerate(tables))
      if (auto values = factorTable(l.b, runs, UpdateFactor(number)))
        table = l.constant(stringifyUpdateFactor(UpdateFactor(number)), values);
    if (llvm::any_of(numbers, [](int64_t number) { return number != 0; }))
      shifts = l.constant("numbers", DenseElementsAttr::get(type(numbers.size(), l.b.getI64Type()),
                                                            ArrayRef(numbers)));
  }
  Value begin(Value i) { return place(bounds, l.mul(i, l.index(2))); }
  Value end(Value i) { return place(bounds, l.add(l.mul(i, l.index(2)), l.index(1))); }
  /// Returns what is added to places in the group to number elements.
  Value shift(Value i) { return shifts ? place(shifts, i) : l.index(0); }
  FactorValues factors(Value i) {
    FactorValues values;
    for (auto [value, table] : llvm::zip_equal(values, tables))
      value = table ? l.splat(memref::LoadOp::create(l.b, l.loc, table, i)) : Value();
    return values;
  }

private:
  Value place(Value table, Value at) {
    Value number = memref::LoadOp::create(l.b, l.loc, table, at);
    return arith::IndexCastOp::create(l.b, l.loc, l.b.getIndexType(), number);
  }

  Loops &l;
  Value bounds, shifts;
  std::array<Value, kUpdateFactors> tables; ///< null: all factors are 1
};

/// Rounds new parameters stochastically, if the update does.
class Rounder {
public:
  Rounder(Loops &l, RoundedUpdateOpInterface update, ValueRange operands) : l(l) {
    if (!update.isRoundedStochastically())
      return;
    seed = scalarOf(l, operands[update.getSeedNumber()]);
    step = scalarOf(l, operands[update.getSeedNumber() + 1]);
  }
  /// Returns a vector of new parameters, rounded. `number` is the number of its first element.
  Value round(Value value, Value number) {
    if (!seed)
      return value;
    auto type = VectorType::get({l.lanes}, l.b.getI64Type());
    SmallVector<int64_t> lanes(l.lanes);
    std::iota(lanes.begin(), lanes.end(), 0);
    Value first = arith::IndexCastOp::create(l.b, l.loc, l.b.getI64Type(), number);
    Value all = arith::AddIOp::create(
        l.b, l.loc, vector::BroadcastOp::create(l.b, l.loc, type, first),
        arith::ConstantOp::create(l.b, l.loc, DenseElementsAttr::get(type, ArrayRef(lanes))));
    return emitRounded(l.b, l.loc, value, emitRoundingWord(l.b, l.loc, all, seed, step));
  }

private:
  Loops &l;
  Value seed, step; ///< null: to nearest
};

struct UpdateKernel : OwnKernelOpInterface::FallbackModel<UpdateKernel> {
  int64_t getRows(Operation *op) const {
    return cast<RankedTensorType>(op->getOperand(0).getType()).getNumElements();
  }
  int64_t getGrain(Operation *) const { return kGrain; }
  int64_t getScratch(Operation *) const { return 0; }
  bool storesCasts(Operation *) const { return true; }
  LogicalResult emit(Operation *op, OpBuilder &b, ValueRange operands, ValueRange results,
                     Value begin, Value end, int64_t lanes) const {
    return emitWithCasts(op, b, operands, results, {}, begin, end, lanes);
  }
  LogicalResult emitWithCasts(Operation *op, OpBuilder &b, ValueRange operands, ValueRange results,
                              ArrayRef<StoredCast> casts, Value begin, Value end,
                              int64_t lanes) const;
};

LogicalResult UpdateKernel::emitWithCasts(Operation *op, OpBuilder &b, ValueRange operands,
                                          ValueRange results, ArrayRef<StoredCast> casts,
                                          Value begin, Value end, int64_t lanes) const {
  auto update = cast<OptimizerUpdateOpInterface>(op);
  Location loc = op->getLoc();
  Loops l(b, loc, lanes);
  auto elementOf = [](Type type) { return cast<RankedTensorType>(type).getElementType(); };
  Type gradient = elementOf(update.getGradientOperand().get().getType());
  SmallVector<Type> elements; // of the parameter and its state
  for (Type type : op->getResultTypes())
    elements.push_back(elementOf(type));
  if (failed(checkUpdateFloats(update)))
    return failure();
  auto operandOf = [&](OpOperand &operand) { return operands[operand.getOperandNumber()]; };
  SmallVector<OpOperand *> olds{&update.getParameterOperand()};
  llvm::append_range(olds, update.getStateOperands());
  SmallVector<Value> scalars(op->getNumOperands()); // of the formula, by operand
  for (unsigned number : update.getHyperNumbers())
    scalars[number] = l.splat(scalarOf(l, operands[number]));
  Value grad = operandOf(update.getGradientOperand()), enable = operands[update.getEnableNumber()];
  Value scale = l.splat(scalarOf(l, operands[update.getEnableNumber() + 1]));
  Value byte = memref::LoadOp::create(b, loc, enable, ValueRange{l.index(0)});
  Value zero = arith::ConstantOp::create(b, loc, b.getI8IntegerAttr(0));
  Value on = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, byte, zero);
  auto rounded = cast<RoundedUpdateOpInterface>(op);
  Rounder rounder(l, rounded, operands);
  // Updates elements. Without `factors` the elements are padding and are copied. `number` is added
  // to an element's index to number it.
  auto range = [&](Value from, Value to, std::optional<FactorValues> factors, Value number) {
    SmallVector<Value> element =
        emitScaled(b, loc, update, scalars, factors.value_or(FactorValues()));
    l.vectors(from, to, {}, [&](Value at, Value mask, ValueRange) -> SmallVector<Value> {
      SmallVector<Value> values;
      for (auto [old, type] : llvm::zip(olds, elements)) {
        values.push_back(l.load(operandOf(*old), at, mask, type));
        element[old->getOperandNumber()] = values.back();
      }
      SmallVector<Value> next(values);
      if (factors) {
        element[update.getGradientOperand().getOperandNumber()] =
            arith::MulFOp::create(b, loc, l.load(grad, at, mask, gradient), scale);
        next = cast<ElementwiseUpdateOpInterface>(op).emitUpdate({b, loc, element});
        next[0] = rounder.round(next[0], l.add(at, number));
      }
      // An old 16-bit value that is widened and rounded again keeps its bits.
      for (auto [i, result] : llvm::enumerate(results)) {
        Value kept = arith::SelectOp::create(b, loc, on, next[i], values[i]);
        l.store(result, at, mask, kept, elements[i]);
        for (const StoredCast &cast : casts)
          if (cast.result == i)
            l.store(cast.memref, at, mask, kept, cast.element);
      }
      return {};
    });
  };
  ArrayAttr segments = update.getGroupSegments();
  if (!segments) {
    FactorValues factors;
    for (auto [factor, value] :
         llvm::zip_equal(factors, UpdateFactors::of(update.getUpdateFactors()).values))
      factor = value == 1 ? Value() : l.splat(l.real(value));
    range(begin, end, factors, l.index(rounded.getRoundedNumber(0)));
    return success();
  }
  SmallVector<UpdateRun> runs = runsOf(update);
  Value shift = l.index(0);
  if (update.getGroupOffset())
    shift = arith::IndexCastOp::create(b, loc, b.getIndexType(), scalarOf(l, operands.back()));
  // Converts a position in the group to one of this rank, clamped to the range.
  auto local = [&](Value place) { return l.max(begin, l.min(end, l.sub(place, shift))); };
  // The runs are walked by a loop, not unrolled: a large unit has hundreds of them.
  RunTable table(l, runs);
  auto loop =
      scf::ForOp::create(b, loc, l.index(0), l.index(runs.size()), l.index(1), ValueRange(begin),
                         [&](OpBuilder &, Location, Value i, ValueRange done) {
                           Value from = local(table.begin(i)), to = local(table.end(i));
                           range(done[0], from, std::nullopt, Value());
                           range(from, to, table.factors(i), l.add(table.shift(i), shift));
                           scf::YieldOp::create(l.b, l.loc, to);
                         });
  range(loop.getResult(0), end, std::nullopt, Value());
  return success();
}

/// Moments in blocks. A row is a block: its new moments are computed once for their scales, and
/// once to be stored.
struct BlockKernel : OwnKernelOpInterface::ExternalModel<BlockKernel, Adamw8bitOp> {
  int64_t getRows(Operation *op) const { return elements(op->getOperand(0)) / kMomentBlock; }
  int64_t getGrain(Operation *) const { return kGrain / kMomentBlock; }
  LogicalResult emit(Operation *op, OpBuilder &b, ValueRange operands, ValueRange results,
                     Value begin, Value end, int64_t lanes) const;
};

/// Emits the update of the blocks of one flat group.
class BlockUpdate {
public:
  BlockUpdate(Adamw8bitOp op, OpBuilder &b, ValueRange operands, ValueRange results, int64_t lanes)
      : op(op), b(b), loc(op.getLoc()), l(b, loc, lanes), in(operands, op), results(results),
        element(elementOf(op.getParam())), gradient(elementOf(op.getGrad())),
        words(VectorType::get({lanes}, b.getI32Type())), olds{in.getMoment1(), in.getMoment2()},
        scalars(op->getNumOperands()), rounder(l, op, operands) {
    for (unsigned number : op.getHyperNumbers())
      scalars[number] = l.splat(scalarOf(l, operands[number]));
    scale = l.splat(scalarOf(l, in.getScale()));
    on = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, scalarOf(l, in.getEnable()),
                               arith::ConstantOp::create(b, loc, b.getI8IntegerAttr(0)));
    zero = l.index(0), codes = l.index(kCodeWords), step = l.index(lanes), shift = zero;
    if (op.getOffset())
      shift = arith::IndexCastOp::create(b, loc, b.getIndexType(), scalarOf(l, operands.back()));
  }
  static Type elementOf(Value value) {
    return cast<RankedTensorType>(value.getType()).getElementType();
  }
  /// Updates the blocks [begin, end).
  void run(Value begin, Value end);

private:
  /// Values that all elements of a block share.
  struct Block {
    Value first, word, last;    ///< its first element, its first word, and the word of its scale
    Value limit;                ///< elements from it on are padding
    SmallVector<Value> scalars; ///< of the formula, by operand, multiplied by their factors
    Value scales[2];            ///< of the old moments
    Value number;               ///< of its first element, in stochastic rounding
  };
  Block blockAt(Value number, Value limit, const FactorValues &factors, Value shift);
  /// Returns the new parameter, if `withParam`, and the new moments of the elements of byte k of
  /// the words from j on.
  SmallVector<Value> next(const Block &block, Value j, int64_t k, bool withParam);
  /// Returns the largest new moments of a block.
  std::pair<Value, Value> topsOf(const Block &block);
  void update(const Block &block);
  /// Copies the blocks [from, to), which are in no segment.
  void pad(Value from, Value to);

  static constexpr Moment kMoments[] = {Moment::First, Moment::Second};
  Adamw8bitOp op;
  OpBuilder &b;
  Location loc;
  Loops l;
  Adamw8bitOp::Adaptor in;
  ValueRange results;
  Type element, gradient;
  VectorType words;
  Value olds[2];
  SmallVector<Value> scalars; ///< of the formula, by operand
  Value scale, on, zero, codes, step;
  Value shift; ///< the element of the group at which this rank's slice begins
  Rounder rounder;
};

BlockUpdate::Block BlockUpdate::blockAt(Value number, Value limit, const FactorValues &factors,
                                        Value numbered) {
  Block block;
  block.first = l.mul(number, l.index(kMomentBlock));
  block.word = l.mul(number, l.index(kBlockWords));
  block.last = l.add(block.word, codes);
  block.limit = limit;
  block.number = l.add(block.first, l.add(shift, numbered));
  block.scalars = emitScaled(b, loc, op, scalars, factors);
  for (int i : {0, 1}) {
    Value bits = memref::LoadOp::create(b, loc, olds[i], block.last);
    block.scales[i] = l.splat(arith::BitcastOp::create(b, loc, b.getF32Type(), bits));
  }
  return block;
}

SmallVector<Value> BlockUpdate::next(const Block &block, Value j, int64_t k, bool withParam) {
  Value place = l.add(j, l.index(k * kCodeWords)), at = l.add(block.first, place);
  Value inside =
      vector::CreateMaskOp::create(b, loc, VectorType::get(words.getShape(), b.getI1Type()),
                                   l.max(zero, l.sub(block.limit, at)));
  Value none = l.splat(l.real(0)), param = none;
  if (withParam)
    param = l.load(in.getParam(), at, {}, element);
  Value g = arith::MulFOp::create(b, loc, l.load(in.getGrad(), at, {}, gradient), scale);
  SmallVector<Value> values(block.scalars);
  values[op.getParamMutable().getOperandNumber()] = param;
  values[op.getGradMutable().getOperandNumber()] = l.keep(inside, g, none);
  for (auto [i, state] : llvm::enumerate(op.getStateOperands())) {
    Value packed = vector::LoadOp::create(b, loc, words, olds[i], l.add(block.word, j));
    values[state->getOperandNumber()] =
        emitDecoded(b, loc, kMoments[i], packed, k, block.scales[i]);
  }
  values = emitAdamw({b, loc, values}, Adamw8bitOp::Adaptor(values, op));
  if (withParam)
    values[0] = rounder.round(values[0], l.add(block.number, place));
  values[0] = l.keep(inside, values[0], param);
  values[0] = arith::SelectOp::create(b, loc, on, values[0], param);
  return values;
}

std::pair<Value, Value> BlockUpdate::topsOf(const Block &block) {
  Value none = l.splat(l.real(0));
  auto largest =
      scf::ForOp::create(b, loc, zero, codes, step, ValueRange{none, none},
                         [&](OpBuilder &, Location, Value j, ValueRange sofar) {
                           SmallVector<Value> sizes(sofar);
                           for (int64_t k = 0; k < kWordCodes; ++k) {
                             SmallVector<Value> values = next(block, j, k, /*withParam=*/false);
                             for (int i : {0, 1})
                               sizes[i] = arith::MaximumFOp::create(
                                   b, loc, sizes[i], math::AbsFOp::create(b, loc, values[i + 1]));
                           }
                           scf::YieldOp::create(b, loc, sizes);
                         });
  Value first = l.maxLanes(largest.getResult(0));
  return {first, l.maxLanes(largest.getResult(1))};
}

void BlockUpdate::update(const Block &block) {
  auto [first, second] = topsOf(block);
  Value tops[] = {first, second};
  l.forRange(zero, l.index(kCodeWords / words.getDimSize(0)), [&](Value vector) {
    Value j = l.mul(vector, step);
    SmallVector<Value> packed(2), params;
    for (int64_t k = 0; k < kWordCodes; ++k) {
      SmallVector<Value> values = next(block, j, k, /*withParam=*/true);
      params.push_back(values[0]);
      for (int i : {0, 1}) {
        Value code = emitCode(b, loc, kMoments[i], values[i + 1], k, l.splat(tops[i]));
        packed[i] = packed[i] ? Value(arith::OrIOp::create(b, loc, packed[i], code)) : code;
      }
    }
    Value at = l.add(block.word, j);
    for (int i : {0, 1}) {
      Value old = vector::LoadOp::create(b, loc, words, olds[i], at);
      packed[i] = arith::SelectOp::create(b, loc, on, packed[i], old);
    }
    for (auto [k, param] : llvm::enumerate(params))
      l.store(results[0], l.add(block.first, l.add(j, l.index(k * kCodeWords))), {}, param,
              element);
    for (int i : {0, 1})
      vector::StoreOp::create(b, loc, packed[i], results[i + 1], at);
  });
  for (int i : {0, 1}) {
    Value bits = arith::BitcastOp::create(b, loc, b.getI32Type(), tops[i]);
    Value old = memref::LoadOp::create(b, loc, olds[i], block.last);
    memref::StoreOp::create(b, loc, arith::SelectOp::create(b, loc, on, bits, old), results[i + 1],
                            block.last);
  }
}

void BlockUpdate::pad(Value from, Value to) {
  Value size = l.index(kMomentBlock), own = l.index(kBlockWords);
  l.vectors(l.mul(from, size), l.mul(to, size), {},
            [&](Value at, Value mask, ValueRange) -> SmallVector<Value> {
              l.store(results[0], at, mask, l.load(in.getParam(), at, mask, element), element);
              return {};
            });
  l.forRange(l.mul(from, own), l.mul(to, own), [&](Value at) {
    for (int i : {0, 1})
      memref::StoreOp::create(b, loc, memref::LoadOp::create(b, loc, olds[i], at), results[i + 1],
                              at);
  });
}

void BlockUpdate::run(Value begin, Value end) {
  SmallVector<UpdateRun> runs = runsOf(op);
  RunTable table(l, runs);
  auto blocks = [&](Value elements) { // of this rank, up to an element of the group, rounded up
    Value local = l.max(zero, l.sub(elements, shift));
    Value whole = l.div(l.add(local, l.index(kMomentBlock - 1)), l.index(kMomentBlock));
    return l.max(begin, l.min(end, whole));
  };
  // Blocks between segments and after them are padding.
  auto loop = scf::ForOp::create(b, loc, zero, l.index(runs.size()), l.index(1), ValueRange(begin),
                                 [&](OpBuilder &, Location, Value i, ValueRange done) {
                                   Value from = blocks(table.begin(i)), to = blocks(table.end(i));
                                   pad(done[0], from);
                                   Value limit = l.sub(table.end(i), shift);
                                   FactorValues factors = table.factors(i);
                                   Value numbered = table.shift(i);
                                   l.forRange(from, to, [&](Value number) {
                                     update(blockAt(number, limit, factors, numbered));
                                   });
                                   scf::YieldOp::create(b, loc, to);
                                 });
  pad(loop.getResult(0), end);
}

LogicalResult BlockKernel::emit(Operation *raw, OpBuilder &b, ValueRange operands,
                                ValueRange results, Value begin, Value end, int64_t lanes) const {
  auto op = cast<Adamw8bitOp>(raw);
  if (failed(checkUpdateFloats(cast<OptimizerUpdateOpInterface>(raw))))
    return failure();
  if (!op.getSegments() || kCodeWords % lanes != 0)
    return op->emitOpError() << "has a kernel for flat groups only";
  BlockUpdate(op, b, operands, results, lanes).run(begin, end);
  return success();
}

} // namespace

void shale::cpu::attachOptimizerKernels(MLIRContext &context) {
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.hasInterface<ElementwiseUpdateOpInterface>())
      name.attachInterface<UpdateKernel>();
  Adamw8bitOp::attachInterface<BlockKernel>(context);
}
