//===- Optimizer.cpp - Updates of flat groups -----------------------------===//
//
// Elements are updated in parallel. Each segment of a flat group has its own factor
// on the weight decay. A range of elements loops over the segments, clipped to the
// range, and copies the padding between them. The formulas are PyTorch's, rounded
// after each operation.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/NN.h"
#include "lib/Target/CPU/Kernels/Kernels.h"
#include "lib/Target/CPU/Kernels/Loops.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace shale;
using namespace shale::cpu;
using namespace shale::nn;

namespace {

constexpr int64_t kGrain = 4096;

/// A run of elements with one factor on the weight decay.
struct Run {
  int64_t begin, end;
  double decay;
};

/// Merges adjacent segments with the same factor to runs.
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

/// An update formula: returns the new values of `olds` (parameter first) for a vector of elements.
using Formula = llvm::function_ref<SmallVector<Value>(ValueRange olds, Value grad, Value decay)>;

Value scalarOf(Loops &l, Value memref) {
  return memref::LoadOp::create(l.b, l.loc, memref, ValueRange{l.index(0)});
}

/// The runs as constant data of the kernel.
class RunTable {
public:
  RunTable(Loops &l, ArrayRef<Run> runs) : l(l) {
    SmallVector<int64_t> places;
    SmallVector<float> factors;
    for (const Run &run : runs) {
      places.append({run.begin, run.end});
      factors.push_back(run.decay);
    }
    bounds = constant("bounds", RankedTensorType::get({int64_t(places.size())}, l.b.getI64Type()), [&](ShapedType type) {
      return DenseElementsAttr::get(type, ArrayRef(places));
    });
    decays = constant("decays", RankedTensorType::get({int64_t(factors.size())}, l.b.getF32Type()), [&](ShapedType type) {
      return DenseElementsAttr::get(type, ArrayRef(factors));
    });
  }
  Value begin(Value i) { return place(l.mul(i, l.index(2))); }
  Value end(Value i) { return place(l.add(l.mul(i, l.index(2)), l.index(1))); }
  Value decay(Value i) { return memref::LoadOp::create(l.b, l.loc, decays, i); }

private:
  Value place(Value at) {
    Value number = memref::LoadOp::create(l.b, l.loc, bounds, at);
    return arith::IndexCastOp::create(l.b, l.loc, l.b.getIndexType(), number);
  }

  /// Emits constant data in the kernel's module; its name is derived from the kernel's.
  Value constant(StringRef what, RankedTensorType type, llvm::function_ref<DenseElementsAttr(ShapedType)> values) {
    auto function = l.b.getInsertionBlock()->getParentOp();
    while (!isa<SymbolOpInterface>(function))
      function = function->getParentOp();
    std::string name = (SymbolTable::getSymbolName(function).getValue() + "." + what).str();
    auto memref = MemRefType::get(type.getShape(), type.getElementType());
    {
      OpBuilder::InsertionGuard guard(l.b);
      l.b.setInsertionPoint(function);
      memref::GlobalOp::create(l.b, l.loc, name, l.b.getStringAttr("private"), memref, values(type), /*constant=*/true,
                               /*alignment=*/IntegerAttr());
    }
    return memref::GetGlobalOp::create(l.b, l.loc, memref, name);
  }

  Loops &l;
  Value bounds, decays;
};

/// Emits an update over [begin, end) of this rank's elements.
LogicalResult emitUpdate(Operation *op, Loops &l, ValueRange olds, Value grad, ValueRange results, Value enable,
                         Value offset, double decay, ArrayAttr segments, Value begin, Value end, Formula formula) {
  auto elementOf = [](Type type) { return cast<RankedTensorType>(type).getElementType(); };
  Type gradient = elementOf(cast<OptimizerUpdate>(op).getGradientOperand().get().getType());
  SmallVector<Type> elements; // of olds and results
  for (Type type : op->getResultTypes())
    elements.push_back(elementOf(type));
  for (Type element : llvm::concat<Type>(elements, SmallVector<Type>{gradient}))
    if (!element.isF32() && !isHalf(element))
      return op->emitOpError() << "has a kernel for f32 and half types only; got " << element;
  Value byte = memref::LoadOp::create(l.b, l.loc, enable, ValueRange{l.index(0)});
  Value zero = arith::ConstantOp::create(l.b, l.loc, l.b.getI8IntegerAttr(0));
  Value on = arith::CmpIOp::create(l.b, l.loc, arith::CmpIPredicate::ne, byte, zero);
  auto range = [&](Value from, Value to, Value factor) {
    l.vectors(from, to, {}, [&](Value at, Value mask, ValueRange) -> SmallVector<Value> {
      SmallVector<Value> values;
      for (auto [old, element] : llvm::zip(olds, elements))
        values.push_back(l.load(old, at, mask, element));
      SmallVector<Value> next(values);
      if (factor)
        next = formula(values, l.load(grad, at, mask, gradient), factor);
      // An old 16-bit value that is widened and rounded again keeps its bits.
      for (auto [result, value, old, element] : llvm::zip(results, next, values, elements))
        l.store(result, at, mask, arith::SelectOp::create(l.b, l.loc, on, value, old), element);
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
  // Converts a position in the group to one of this rank, clamped to the range.
  auto local = [&](Value place) { return l.max(begin, l.min(end, l.sub(place, shift))); };
  // The runs are walked by a loop, not unrolled: a large unit has hundreds of them.
  RunTable table(l, runs);
  auto loop = scf::ForOp::create(
      l.b, l.loc, l.index(0), l.index(runs.size()), l.index(1), ValueRange(begin),
      [&](OpBuilder &, Location, Value i, ValueRange done) {
        Value from = local(table.begin(i)), to = local(table.end(i));
        range(done[0], from, Value());
        range(from, to, table.decay(i));
        scf::YieldOp::create(l.b, l.loc, to);
      });
  range(loop.getResult(0), end, Value());
  return success();
}

/// The rows and the grain of every update: elements of the parameter, in chunks.
template <typename Kernel, typename Op> struct UpdateKernel : OwnKernel::ExternalModel<Kernel, Op> {
  int64_t getRows(Operation *op) const { return cast<RankedTensorType>(cast<Op>(op).getParam().getType()).getNumElements(); }
  int64_t getGrain(Operation *) const { return kGrain; }
};

struct AdamwKernel : UpdateKernel<AdamwKernel, AdamwOp> {
  LogicalResult emit(Operation *raw, OpBuilder &b, ValueRange operands, ValueRange results, Value begin, Value end, int64_t lanes) const {
    auto op = cast<AdamwOp>(raw);
    Location loc = op.getLoc();
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
    return emitUpdate(op, l, {operands[0], operands[2], operands[3]}, operands[1], results, operands[4],
                      op.getOffset() ? operands[13] : Value(), op.getDecay().convertToDouble(), op.getSegmentsAttr(), begin, end,
                      formula);
  }
};

struct SgdKernel : UpdateKernel<SgdKernel, SgdOp> {
  LogicalResult emit(Operation *raw, OpBuilder &b, ValueRange operands, ValueRange results, Value begin, Value end, int64_t lanes) const {
    auto op = cast<SgdOp>(raw);
    Location loc = op.getLoc();
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
    return emitUpdate(op, l, {operands[0], operands[2]}, operands[1], results, operands[3],
                      op.getOffset() ? operands[8] : Value(), op.getDecay().convertToDouble(), op.getSegmentsAttr(), begin, end,
                      formula);
  }
};

} // namespace

void shale::cpu::attachOptimizerKernels(MLIRContext &context) {
  AdamwOp::attachInterface<AdamwKernel>(context);
  SgdOp::attachInterface<SgdKernel>(context);
}
