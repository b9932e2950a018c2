//===- Optimizer.cpp - Updates of flat groups -----------------------------===//
//
// Elements in parallel. A flat group's segments bring their own factor on the
// weight decay: each range of elements goes through the segments, clipped to
// itself, and padding between them is copied. Formulas are PyTorch's, rounded
// after each operation.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Kernels/Loops.h"
#include "dialects/nn/NN.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace shale::nn;

namespace {

constexpr int64_t kGrain = 4096;

/// A run of elements with one factor on the decay.
struct Run {
  int64_t begin, end;
  double decay;
};

/// Segments of one factor that touch are one run.
SmallVector<Run> runsOf(ArrayAttr segments) {
  SmallVector<Run> runs;
  for (auto segment : segments.getAsRange<SegmentAttr>()) {
    int64_t begin = segment.getOffset(), end = begin + segment.getCount();
    double decay = segment.getDecay().getValueAsDouble();
    if (!runs.empty() && runs.back().end == begin && runs.back().decay == decay)
      runs.back().end = end;
    else
      runs.push_back({begin, end, decay});
  }
  return runs;
}

/// One update: new values of `olds` (parameter first) at one place.
using Formula = llvm::function_ref<SmallVector<Value>(ValueRange olds, Value grad, Value decay)>;

Value scalarOf(Loops &l, Value memref) {
  return memref::LoadOp::create(l.b, l.loc, memref, ValueRange{l.index(0)});
}

/// Emits an update over [begin, end) of this rank's elements.
LogicalResult emitUpdate(Operation *op, Loops &l, ValueRange olds, Value grad, ValueRange results, Value enable,
                         Value offset, double decay, ArrayAttr segments, Value begin, Value end, Formula formula) {
  for (Type type : op->getResultTypes())
    if (!cast<RankedTensorType>(type).getElementType().isF32())
      return op->emitOpError() << "has a kernel for f32 only; got " << type;
  Value byte = memref::LoadOp::create(l.b, l.loc, enable, ValueRange{l.index(0)});
  Value zero = arith::ConstantOp::create(l.b, l.loc, l.b.getI8IntegerAttr(0));
  Value on = arith::CmpIOp::create(l.b, l.loc, arith::CmpIPredicate::ne, byte, zero);
  auto range = [&](Value from, Value to, Value factor) {
    l.vectors(from, to, {}, [&](Value at, Value mask, ValueRange) -> SmallVector<Value> {
      SmallVector<Value> values;
      for (Value old : olds)
        values.push_back(l.load(old, at, mask));
      SmallVector<Value> next(values);
      if (factor)
        next = formula(values, l.load(grad, at, mask), factor);
      for (auto [result, value, old] : llvm::zip(results, next, values))
        l.store(result, at, mask, arith::SelectOp::create(l.b, l.loc, on, value, old));
      return {};
    });
  };
  if (!segments) {
    range(begin, end, l.real(decay));
    return success();
  }
  SmallVector<Run> runs = runsOf(segments);
  Value shift = l.index(0);
  if (offset)
    shift = arith::IndexCastOp::create(l.b, l.loc, l.b.getIndexType(), scalarOf(l, offset));
  // A place of the group as one of this range.
  auto local = [&](Value place) { return l.max(begin, l.min(end, l.sub(place, shift))); };
  Value done = begin;
  // Few runs: unrolled they need no table.
  for (const Run &run : runs) {
    Value from = local(l.index(run.begin)), to = local(l.index(run.end));
    range(done, from, Value());
    range(from, to, l.real(run.decay));
    done = to;
  }
  range(done, end, Value());
  return success();
}

} // namespace

int64_t AdamwOp::getKernelRows() { return cast<RankedTensorType>(getParam().getType()).getNumElements(); }
int64_t AdamwOp::getKernelGrain() { return kGrain; }
int64_t AdamwOp::getKernelScratch() { return 0; }

LogicalResult AdamwOp::emitKernel(OpBuilder &b, ValueRange operands, ValueRange results, Value begin, Value end,
                                  int64_t lanes) {
  Location loc = getLoc();
  Loops l(b, loc, lanes);
  auto scalar = [&](unsigned i) { return scalarOf(l, operands[i]); };
  Value scale = scalar(5), lr = scalar(6), beta1 = scalar(7), beta2 = scalar(8), epsilon = scalar(9),
        weightDecay = scalar(10), bias1 = scalar(11), bias2 = scalar(12);
  Value one = l.real(1);
  auto sub = [&](Value x, Value y) -> Value { return arith::SubFOp::create(b, loc, x, y); };
  auto add = [&](Value x, Value y) -> Value { return arith::AddFOp::create(b, loc, x, y); };
  auto mul = [&](Value x, Value y) -> Value { return arith::MulFOp::create(b, loc, x, y); };
  auto div = [&](Value x, Value y) -> Value { return arith::DivFOp::create(b, loc, x, y); };
  auto root = [&](Value x) -> Value { return math::SqrtOp::create(b, loc, x); };
  Value fresh1 = l.splat(sub(one, beta1)), fresh2 = l.splat(sub(one, beta2)), kept2 = l.splat(beta2);
  Value rate = l.splat(div(lr, bias1)), norm = l.splat(root(bias2)), eps = l.splat(epsilon), factor = l.splat(scale);
  Value decayRate = mul(lr, weightDecay);
  auto formula = [&](ValueRange old, Value grad, Value decay) -> SmallVector<Value> {
    Value g = mul(grad, factor);
    Value p = mul(old[0], l.splat(sub(one, mul(decayRate, decay))));
    Value m = add(old[1], mul(sub(g, old[1]), fresh1));
    Value v = add(mul(old[2], kept2), mul(mul(g, g), fresh2));
    Value denominator = add(div(root(v), norm), eps);
    return {sub(p, div(mul(rate, m), denominator)), m, v};
  };
  return emitUpdate(*this, l, {operands[0], operands[2], operands[3]}, operands[1], results, operands[4],
                    getOffset() ? operands[13] : Value(), getDecay().convertToDouble(), getSegmentsAttr(), begin, end,
                    formula);
}

int64_t SgdOp::getKernelRows() { return cast<RankedTensorType>(getParam().getType()).getNumElements(); }
int64_t SgdOp::getKernelGrain() { return kGrain; }
int64_t SgdOp::getKernelScratch() { return 0; }

LogicalResult SgdOp::emitKernel(OpBuilder &b, ValueRange operands, ValueRange results, Value begin, Value end,
                                int64_t lanes) {
  Location loc = getLoc();
  Loops l(b, loc, lanes);
  auto scalar = [&](unsigned i) { return scalarOf(l, operands[i]); };
  Value scale = scalar(4), lr = l.splat(scalar(5)), momentum = l.splat(scalar(6)), weightDecay = scalar(7);
  Value factor = l.splat(scale);
  auto add = [&](Value x, Value y) -> Value { return arith::AddFOp::create(b, loc, x, y); };
  auto mul = [&](Value x, Value y) -> Value { return arith::MulFOp::create(b, loc, x, y); };
  auto formula = [&](ValueRange old, Value grad, Value decay) -> SmallVector<Value> {
    Value g = mul(grad, factor);
    g = add(g, mul(old[0], l.splat(mul(weightDecay, decay))));
    Value v = add(mul(old[1], momentum), g);
    return {arith::SubFOp::create(b, loc, old[0], mul(lr, v)), v};
  };
  return emitUpdate(*this, l, {operands[0], operands[2]}, operands[1], results, operands[3],
                    getOffset() ? operands[8] : Value(), getDecay().convertToDouble(), getSegmentsAttr(), begin, end,
                    formula);
}
