//===- Update.cpp - Updates of flat groups --------------------------------===//
//
// One launch updates the whole slice of a group. Each segment has its own factors; a thread finds
// the segment of its elements by binary search. Padding between segments keeps its bits. The
// formula is the op's own.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Optimizers.h"
#include "dialects/nn/Optimizers/Blocks.h"
#include "dialects/nn/Optimizers/Rounding.h"
#include "dialects/nn/Optimizers/Runs.h"
#include "lib/Target/CUDA/Kernels/Kernels.h"
#include "lib/Target/CUDA/Kernels/Threads.h"
#include "lib/Target/CUDA/ThreadEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;
using namespace shale::nn;

namespace {

constexpr int64_t kThreads = 128;
/// Neighbouring elements per thread. A chunk overlaps at most two segments, which begin at
/// multiples of 64 bytes.
constexpr int64_t kWidth = 4;

/// The segments of a group as constant data of the kernel, with two more behind all elements.
class Segments {
public:
  Segments(Threads &t, OptimizerUpdateOpInterface update) : t(t) {
    SmallVector<UpdateRun> runs = runsOf(update);
    count = runs.size();
    runs.append(2, {INT64_MAX, INT64_MAX, UpdateFactors::of({}), 0});
    SmallVector<int64_t> starts, ends, numbers;
    for (const UpdateRun &run : runs) {
      starts.push_back(run.begin);
      ends.push_back(run.end);
      numbers.push_back(run.shift);
    }
    auto type = RankedTensorType::get({int64_t(runs.size())}, t.b.getI64Type());
    begins = t.constant("begins", DenseElementsAttr::get(type, ArrayRef(starts)));
    bounds = t.constant("bounds", DenseElementsAttr::get(type, ArrayRef(ends)));
    for (auto [number, table] : llvm::enumerate(tables))
      if (auto values = factorTable(t.b, runs, UpdateFactor(number)))
        table = t.constant(stringifyUpdateFactor(UpdateFactor(number)), values);
    if (cast<RoundedUpdateOpInterface>(update.getOperation()).isRoundedStochastically())
      shifts = t.constant("numbers", DenseElementsAttr::get(type, ArrayRef(numbers)));
  }

  /// Returns the first segment that ends after the element `at`.
  Value find(Value at) {
    Value found = t.index(0);
    for (int64_t step = llvm::bit_floor(uint64_t(count)); step > 0; step /= 2) {
      Value next = t.add(found, t.index(step));
      Value last = t.min(t.sub(next, t.index(1)), t.index(count - 1));
      Value exists = t.less(t.sub(next, t.index(1)), t.index(count));
      Value before = t.less(t.loadIndex(bounds, last), t.add(at, t.index(1)));
      found = t.select(t.both(exists, before), next, found);
    }
    return found;
  }

  struct Segment {
    Value begin, end;
    FactorValues factors;
    /// Added to places in the group to number elements; null if these are rounded to nearest.
    Value shift;
  };
  Segment get(Value number) {
    Segment segment{t.loadIndex(begins, number), t.loadIndex(bounds, number), {}, Value()};
    for (auto [factor, table] : llvm::zip_equal(segment.factors, tables))
      factor = table ? t.load(table, number) : Value();
    segment.shift = shifts ? t.load(shifts, number) : Value();
    return segment;
  }

private:
  Threads &t;
  int64_t count;
  Value begins, bounds, shifts;
  std::array<Value, kUpdateFactors> tables; ///< null: all factors are 1
};

/// The factors of the elements of a thread's chunk.
class ChunkFactors {
public:
  /// Chunk number `chunk` of `width` elements each begins where the thread's elements do.
  ChunkFactors(Threads &t, OptimizerUpdateOpInterface update, ValueRange operands, Value chunk,
               int64_t width)
      : t(t), update(update), rounding(cast<RoundedUpdateOpInterface>(update.getOperation())) {
    Value begin = width == 1 ? chunk : t.mul(chunk, t.index(kWidth));
    if (!update.getGroupSegments()) {
      if (rounding.isRoundedStochastically())
        number = asNumber(t.add(begin, t.index(rounding.getRoundedNumber(0))));
      return;
    }
    Segments segments(t, update);
    start = begin;
    if (update.getGroupOffset())
      start = t.add(start, t.loadIndex(operands.back(), t.index(0)));
    Value place = segments.find(start);
    first = segments.get(place);
    second = segments.get(t.add(place, t.index(1)));
    // Segments begin at multiples of 16 elements or more: this one is that of all elements of the
    // chunk that are in a segment.
    if (first.shift)
      number = arith::AddIOp::create(t.b, t.loc, first.shift, asNumber(start));
  }

  /// Returns the random words of the chunk's elements, if these are rounded stochastically.
  std::array<Value, kWidth> words(ValueRange operands) {
    if (!rounding.isRoundedStochastically())
      return {};
    unsigned seed = rounding.getSeedNumber();
    return emitRoundingWords(t.b, t.loc, number, t.load(operands[seed], t.index(0)),
                             t.load(operands[seed + 1], t.index(0)));
  }

  struct Factors {
    FactorValues values;
    Value inside; ///< whether the element is in a segment; null: it is
  };
  Factors get(int64_t lane) {
    Factors own;
    if (!start) {
      for (auto [value, factor] :
           llvm::zip_equal(own.values, UpdateFactors::of(update.getUpdateFactors()).values))
        value = factor == 1 ? Value() : constant(factor);
      return own;
    }
    Value place = t.add(start, t.index(lane)), inFirst = within(place, first);
    for (auto [value, one, other] : llvm::zip_equal(own.values, first.factors, second.factors))
      value = one ? t.select(inFirst, one, other) : Value();
    own.inside = arith::OrIOp::create(t.b, t.loc, inFirst, within(place, second));
    return own;
  }

private:
  Value constant(double value) {
    return arith::ConstantOp::create(t.b, t.loc, t.b.getF32FloatAttr(value));
  }
  Value within(Value at, const Segments::Segment &segment) {
    return t.both(t.less(t.sub(segment.begin, t.index(1)), at), t.less(at, segment.end));
  }

  Value asNumber(Value index) {
    return arith::IndexCastOp::create(t.b, t.loc, t.b.getI64Type(), index);
  }

  Threads &t;
  OptimizerUpdateOpInterface update;
  RoundedUpdateOpInterface rounding;
  Value number; ///< that of the chunk's first element in stochastic rounding
  Value start;  ///< the chunk's first element in the group; null without segments
  Segments::Segment first, second;
};

struct UpdateKernel : cuda::OwnKernelOpInterface::FallbackModel<UpdateKernel> {
  Launch getLaunch(Operation *op) const {
    int64_t chunks = llvm::divideCeil(elements(op->getOperand(0)), kWidth);
    return {int64_t(llvm::divideCeil(chunks, kThreads)), kThreads};
  }
  bool isSupported(Operation *) const { return true; }
  bool storesCasts(Operation *) const { return true; }
  LogicalResult emit(Operation *op, OpBuilder &b, gpu::GPUFuncOp function, ValueRange operands,
                     ValueRange results) const {
    return emitWithCasts(op, b, function, operands, results, {});
  }
  LogicalResult emitWithCasts(Operation *op, OpBuilder &b, gpu::GPUFuncOp function,
                              ValueRange operands, ValueRange results,
                              ArrayRef<StoredCast> casts) const;
};

Type elementOf(Type type) { return cast<RankedTensorType>(type).getElementType(); }

/// Returns the stores of one element: each result and its casts.
SmallVector<NestEmitter::Output> outputsOf(Threads &t, Operation *op, ValueRange results,
                                           ArrayRef<StoredCast> casts, const LinearIndex &at,
                                           ArrayRef<Value> values) {
  SmallVector<NestEmitter::Output> outputs;
  for (auto [result, memref, value] : llvm::zip(op->getResults(), results, values)) {
    for (const StoredCast &cast : casts)
      if (cast.result == result.getResultNumber())
        outputs.push_back({cast.memref, at, narrowTo16Bits(t.b, t.loc, value, cast.element)});
    // An old 16-bit value that is widened and rounded again keeps its bits.
    Type element = elementOf(result.getType());
    outputs.push_back(
        {memref, at, is16BitFloat(element) ? narrowTo16Bits(t.b, t.loc, value, element) : value});
  }
  return outputs;
}

LogicalResult UpdateKernel::emitWithCasts(Operation *op, OpBuilder &b, gpu::GPUFuncOp function,
                                          ValueRange operands, ValueRange results,
                                          ArrayRef<StoredCast> casts) const {
  auto update = cast<OptimizerUpdateOpInterface>(op);
  Location loc = op->getLoc();
  Threads t(b, function);
  int64_t count = elements(op->getOperand(0));
  Value zero = t.index(0);
  SmallVector<OpOperand *> olds{&update.getParameterOperand()};
  llvm::append_range(olds, update.getStateOperands());
  SmallVector<Value> scalars(op->getNumOperands()); // of the formula, by operand
  for (unsigned number : update.getHyperNumbers())
    scalars[number] = t.load(operands[number], zero);
  if (failed(checkUpdateFloats(update)))
    return failure();
  Value byte = t.load(operands[update.getEnableNumber()], zero);
  Value on = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, byte,
                                   constantLike(b, loc, byte.getType(), 0));
  Value scale = t.load(operands[update.getEnableNumber() + 1], zero);

  ThreadEmitter emitter(b, loc);
  for (auto [value, memref] : llvm::zip(op->getOperands(), operands))
    emitter.bind(value, memref);
  emitter.nest.pushScope(&function.getBody().front());
  Value chunk = t.add(t.mul(t.block(), t.index(kThreads)), t.thread());
  int64_t width = count % kWidth == 0 ? kWidth : 1;
  if (width == 1) // a chunk is kWidth elements, of which the last may be outside
    chunk = t.mul(chunk, t.index(kWidth));
  int64_t size = width == 1 ? count : count / kWidth;

  ChunkFactors factors(t, update, operands, chunk, width);
  std::array<Value, kWidth> words = factors.words(operands);
  SmallVector<SmallVector<NestEmitter::Output>> lanes;
  SmallVector<Value> insides;
  Value whole = t.less(chunk, t.index(size));
  LinearIndex piece = emitter.addDim(size, chunk, DimOrigin::Other, 0, whole).times(width);
  for (int64_t lane = 0; lane < kWidth; ++lane) {
    LinearIndex at = piece.plus(lane);
    Value inside = whole;
    if (width == 1) {
      Value place = t.add(chunk, t.index(lane));
      inside = t.less(place, t.index(size));
      at = emitter.addDim(size, place, DimOrigin::Other, 0, inside);
    }
    SmallVector<Value> values;
    for (OpOperand *old : olds)
      values.push_back(widen16Bits(b, loc, emitter.emit(old->get(), at)));
    OpOperand &gradient = update.getGradientOperand();
    Value g =
        arith::MulFOp::create(b, loc, widen16Bits(b, loc, emitter.emit(gradient.get(), at)), scale);
    auto [own, isInSegment] = factors.get(lane);
    Value changes = isInSegment ? t.both(on, isInSegment) : on;
    SmallVector<Value> element = emitScaled(b, loc, update, scalars, own);
    for (auto [old, value] : llvm::zip_equal(olds, values))
      element[old->getOperandNumber()] = value;
    element[gradient.getOperandNumber()] = g;
    SmallVector<Value> next = cast<ElementwiseUpdateOpInterface>(op).emitUpdate({b, loc, element});
    if (words[lane])
      next[0] = emitRounded(b, loc, next[0], words[lane]);
    insides.push_back(inside);
    SmallVector<Value> kept;
    for (auto [value, old] : llvm::zip(next, values))
      kept.push_back(t.select(changes, value, old));
    lanes.push_back(outputsOf(t, op, results, casts, at, kept));
  }
  if (width == 1) {
    for (auto [inside, outputs] : llvm::zip(insides, lanes))
      t.when(inside, [&, &outputs = outputs] { emitter.storeOutputs(outputs); });
  } else {
    t.when(insides.front(), [&] {
      for (ArrayRef<NestEmitter::Output> outputs : lanes)
        emitter.storeOutputs(outputs);
    });
  }
  emitter.finishAccesses();
  return success();
}

/// Moments in blocks: a block of threads, one per word, updates one of them.
struct BlockKernel : cuda::OwnKernelOpInterface::ExternalModel<BlockKernel, Adamw8bitOp> {
  Launch getLaunch(Operation *op) const {
    return {std::max<int64_t>(1, elements(op->getOperand(0)) / kMomentBlock), kCodeWords};
  }
  LogicalResult emit(Operation *op, OpBuilder &b, gpu::GPUFuncOp function, ValueRange operands,
                     ValueRange results) const;
};

/// Emits the update of one block by the threads of a block.
class BlockUpdate {
public:
  BlockUpdate(Adamw8bitOp op, OpBuilder &b, gpu::GPUFuncOp function, ValueRange operands,
              ValueRange results)
      : op(op), b(b), loc(op.getLoc()), t(b, function), in(operands, op), results(results),
        element(elementOf(op.getParam().getType())), gradient(elementOf(op.getGrad().getType())),
        olds{in.getMoment1(), in.getMoment2()}, scalars(op->getNumOperands()) {
    Value zero = t.index(0);
    block = t.block(), thread = t.thread();
    for (unsigned number : op.getHyperNumbers())
      scalars[number] = t.load(operands[number], zero);
    scale = t.load(in.getScale(), zero);
    Value byte = t.load(in.getEnable(), zero);
    on = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, byte,
                               constantLike(b, loc, byte.getType(), 0));
    if (!op.getRounding().empty()) {
      seed = t.load(in.getRounding()[0], zero);
      step = t.load(in.getRounding()[1], zero);
    }
    first = start = t.mul(block, t.index(kMomentBlock));
    if (op.getOffset())
      start = t.add(start, t.loadIndex(operands.back(), zero));
  }
  void run();

private:
  Value load(Value memref, Value at, Type type) {
    Value value = t.load(memref, at);
    return is16BitFloat(type) ? widen16Bits(b, loc, arith::BitcastOp::create(b, loc, type, value))
                              : value;
  }
  /// Computes this thread's new parameters and moments, of elements that end at `end`.
  void computeElements(Value end);
  /// Makes the largest moments of all threads known to each.
  void exchangeTops();
  /// Stores codes, scales and parameters.
  void store();
  /// Returns the largest of kParts values from `from` on.
  Value largest(Value memref, Value from);

  static constexpr Moment kMoments[] = {Moment::First, Moment::Second};
  static constexpr int64_t kParts = 8;
  Adamw8bitOp op;
  OpBuilder &b;
  Location loc;
  Threads t;
  Adamw8bitOp::Adaptor in;
  ValueRange results;
  Type element, gradient;
  Value olds[2];
  Value block, thread, scale, on;
  Value seed, step;   ///< of stochastic rounding
  Value first, start; ///< the block's first element in this rank's slice, and in the group
  Value number;       ///< of this thread's first element, in stochastic rounding; else null
  Value known;        ///< whether the block is in a segment
  Value word, last;   ///< this thread's word of a moment, and the word of the block's scale
  Value packed[2], bits[2], tops[2], parts;
  SmallVector<Value> scalars; ///< of the formula, by operand
  SmallVector<Value> params, ats, news[2];
};

void BlockUpdate::computeElements(Value end) {
  Value none = constantLike(b, loc, b.getF32Type(), 0);
  tops[0] = tops[1] = none;
  for (int64_t k = 0; k < kWordCodes; ++k) {
    Value at = t.add(first, t.add(thread, t.index(k * kCodeWords)));
    Value place = t.add(start, t.sub(at, first));
    Value inside = t.both(known, t.less(place, end));
    Value param = load(in.getParam(), at, element);
    Value g = arith::MulFOp::create(b, loc, load(in.getGrad(), at, gradient), scale);
    SmallVector<Value> values(scalars);
    values[op.getParamMutable().getOperandNumber()] = param;
    values[op.getGradMutable().getOperandNumber()] = t.select(inside, g, none);
    for (auto [i, state] : llvm::enumerate(op.getStateOperands()))
      values[state->getOperandNumber()] =
          emitDecoded(b, loc, kMoments[i], packed[i], k,
                      arith::BitcastOp::create(b, loc, b.getF32Type(), bits[i]));
    values = emitAdamw({b, loc, values}, Adamw8bitOp::Adaptor(values, op));
    if (number) {
      Value own = arith::AddIOp::create(
          b, loc, number, constantLike(b, loc, b.getI64Type(), double(k * kCodeWords)));
      values[0] = emitRounded(b, loc, values[0], emitRoundingWord(b, loc, own, seed, step));
    }
    params.push_back(t.select(t.both(on, inside), values[0], param));
    ats.push_back(at);
    for (int i : {0, 1}) {
      news[i].push_back(values[i + 1]);
      tops[i] =
          arith::MaximumFOp::create(b, loc, tops[i], math::AbsFOp::create(b, loc, values[i + 1]));
    }
  }
}

Value BlockUpdate::largest(Value memref, Value from) {
  Value top = t.load(memref, from);
  for (int64_t i = 1; i < kParts; ++i)
    top = arith::MaximumFOp::create(b, loc, top, t.load(memref, t.add(from, t.index(i))));
  return top;
}

void BlockUpdate::exchangeTops() {
  // First, each of the first threads finds the largest of eight neighbouring values. Then every
  // thread finds the largest of these results.
  Value sizes = t.shared(2 * kCodeWords, b.getF32Type());
  parts = t.shared(2 * kParts, b.getF32Type());
  for (int i : {0, 1})
    t.store(tops[i], sizes, t.add(thread, t.index(i * kCodeWords)));
  t.barrier();
  t.when(t.less(thread, t.index(2 * kParts)),
         [&] { t.store(largest(sizes, t.mul(thread, t.index(kParts))), parts, thread); });
  t.barrier();
}

void BlockUpdate::store() {
  Value changes = t.both(on, known);
  for (int i : {0, 1}) {
    Value top = largest(parts, t.index(i * kParts)), codes;
    for (int64_t k = 0; k < kWordCodes; ++k) {
      Value code = emitCode(b, loc, kMoments[i], news[i][k], k, top);
      codes = codes ? Value(arith::OrIOp::create(b, loc, codes, code)) : code;
    }
    t.store(t.select(changes, codes, packed[i]), results[i + 1], word);
    t.when(t.less(thread, t.index(1)), [&] {
      Value raised = arith::BitcastOp::create(b, loc, b.getI32Type(), top);
      t.store(t.select(changes, raised, bits[i]), results[i + 1], last);
    });
  }
  for (auto [at, param] : llvm::zip(ats, params)) {
    if (is16BitFloat(element))
      param =
          arith::BitcastOp::create(b, loc, b.getI16Type(), narrowTo16Bits(b, loc, param, element));
    t.store(param, results[0], at);
  }
}

void BlockUpdate::run() {
  Segments segments(t, op);
  Segments::Segment segment = segments.get(segments.find(start));
  // A block in no segment is before the segment that was found.
  known = t.less(segment.begin, t.add(start, t.index(1)));
  scalars = emitScaled(b, loc, op, scalars, segment.factors);
  if (segment.shift)
    number = arith::AddIOp::create(
        b, loc, segment.shift,
        arith::IndexCastOp::create(b, loc, b.getI64Type(), t.add(start, thread)));
  word = t.add(t.mul(block, t.index(kBlockWords)), thread);
  last = t.add(t.mul(block, t.index(kBlockWords)), t.index(kCodeWords));
  for (int i : {0, 1}) {
    packed[i] = t.load(olds[i], word);
    bits[i] = t.load(olds[i], last);
  }
  computeElements(segment.end);
  exchangeTops();
  store();
}

LogicalResult BlockKernel::emit(Operation *raw, OpBuilder &b, gpu::GPUFuncOp function,
                                ValueRange operands, ValueRange results) const {
  auto op = cast<Adamw8bitOp>(raw);
  if (failed(checkUpdateFloats(cast<OptimizerUpdateOpInterface>(raw))))
    return failure();
  if (!op.getSegments() || op.getSegments()->empty() || elements(op.getParam()) == 0)
    return op->emitOpError() << "has a kernel for flat groups only";
  BlockUpdate(op, b, function, operands, results).run();
  return success();
}

} // namespace

void cuda::attachUpdateKernels(MLIRContext &context) {
  for (RegisteredOperationName name : context.getRegisteredOperations())
    if (name.hasInterface<ElementwiseUpdateOpInterface>())
      name.attachInterface<UpdateKernel>();
  Adamw8bitOp::attachInterface<BlockKernel>(context);
}
