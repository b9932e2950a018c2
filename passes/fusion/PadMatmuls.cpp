//===- PadMatmuls.cpp - Pads odd sizes of matmuls -------------------------===//
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Loss.h"
#include "dialects/nn/Ops/Matmul.h"
#include "lib/Support/OpCopies.h"
#include "lib/Support/Remarks.h"
#include "lib/Target/Target.h"
#include "passes/fusion/Passes.h"
#include "llvm/Support/FormatVariadic.h"

namespace shale {
#define GEN_PASS_DEF_PADMATMULSPASS
#include "passes/fusion/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;

namespace {

/// Sizes of a matmul: of result [m, n], and the number of terms of each element.
struct Sizes {
  int64_t m, n, k;
  bool operator==(const Sizes &other) const { return m == other.m && n == other.n && k == other.k; }
};

template <typename OpT> Sizes sizesOf(OpT op) {
  ArrayRef<int64_t> lhs = cast<RankedTensorType>(op.getLhs().getType()).getShape().take_back(2);
  ArrayRef<int64_t> result = cast<RankedTensorType>(op.getType()).getShape().take_back(2);
  return {result[0], result[1], lhs[op.getTransposeLhs() ? 0 : 1]};
}

/// Pads the matmuls of one block, in order.
class MatmulPadder {
public:
  MatmulPadder(const Target &target, int64_t leastWork, MLIRContext *context)
      : target(target), leastWork(leastWork), b(context, &listener) {}
  void run(Block &block);

private:
  template <typename OpT> void pad(OpT op);
  void widen(Operation *op);
  Value padded(Value value, int64_t rows, int64_t columns);
  Value cut(Value whole, RankedTensorType type);

  const Target &target;
  int64_t leastWork;
  CopyAttributes listener;
  OpBuilder b;
  /// Padded values by value, shape and phase: a copy does not live from the forward to the backward
  /// pass.
  DenseMap<std::tuple<Value, Type, Attribute>, Value> copies;
  /// Slices that this pass made of values that are 0 outside of the slice, if operands are finite.
  DenseSet<Operation *> cuts;
};

} // namespace

static RankedTensorType withMatrix(RankedTensorType type, int64_t rows, int64_t columns) {
  SmallVector<int64_t> shape(type.getShape());
  shape[shape.size() - 2] = rows, shape.back() = columns;
  return type.clone(shape);
}

/// Returns the value with zeros after its rows and columns.
Value MatmulPadder::padded(Value value, int64_t rows, int64_t columns) {
  auto type = cast<RankedTensorType>(value.getType());
  RankedTensorType wide = withMatrix(type, rows, columns);
  if (wide == type)
    return value;
  if (Operation *maker = value.getDefiningOp();
      maker && cuts.contains(maker) && maker->getOperand(0).getType() == wide)
    return maker->getOperand(0);
  Value &copy = copies[{value, wide, nn::phaseOf(listener.current)}];
  if (!copy) {
    SmallVector<int64_t> none(type.getRank(), 0), high = none;
    for (int64_t i = 0; i < type.getRank(); ++i)
      high[i] = wide.getDimSize(i) - type.getDimSize(i);
    copy = nn::PadOp::create(b, value.getLoc(), wide, value, none, high, none, llvm::APFloat(0.0));
  }
  return copy;
}

/// Returns the part of `whole` without its padding.
Value MatmulPadder::cut(Value whole, RankedTensorType type) {
  SmallVector<int64_t> starts(type.getRank(), 0), ones(type.getRank(), 1);
  Value part = nn::SliceOp::create(b, whole.getLoc(), type, whole, starts, type.getShape(), ones);
  cuts.insert(part.getDefiningOp());
  return part;
}

template <typename OpT> void MatmulPadder::pad(OpT op) {
  auto type = cast<RankedTensorType>(op.getType());
  Type element = cast<RankedTensorType>(op.getLhs().getType()).getElementType();
  Sizes sizes = sizesOf(op), wide = sizes;
  bool lhs = op.getTransposeLhs(), rhs = op.getTransposeRhs();
  // The sizes along which neighbours in memory lie.
  wide.n = target.paddedSize(sizes.n, element);
  if (lhs)
    wide.m = target.paddedSize(sizes.m, element);
  if (!lhs || rhs)
    wide.k = target.paddedSize(sizes.k, element);
  int64_t work = op.getFlops();
  if (wide == sizes || work < leastWork || work == 0)
    return;
  emitDecision(op.getLoc(), "pad-matmuls",
               llvm::formatv("a matmul of {0} x {1} x {2} is padded to {3} x {4} x {5}", sizes.m,
                             sizes.n, sizes.k, wide.m, wide.n, wide.k)
                   .str());
  Value left = padded(op.getLhs(), lhs ? wide.k : wide.m, lhs ? wide.m : wide.k);
  Value right = padded(op.getRhs(), rhs ? wide.n : wide.k, rhs ? wide.k : wide.n);
  RankedTensorType result = withMatrix(type, wide.m, wide.n);
  Value matmul;
  if constexpr (std::is_same_v<OpT, nn::MatmulAddOp>)
    matmul = nn::MatmulAddOp::create(b, op.getLoc(), result, padded(op.getSum(), wide.m, wide.n),
                                     left, right, lhs, rhs);
  else
    matmul = nn::MatmulOp::create(b, op.getLoc(), result, left, right, lhs, rhs);
  op.replaceAllUsesWith(result == type ? matmul : cut(matmul, type));
  op.erase();
}

/// Makes an op read the padded logits unsliced, with minus infinity in the added columns: rows then
/// begin at aligned addresses, and a gradient can take the buffer of the logits.
void MatmulPadder::widen(Operation *op) {
  Value logits = op->getOperand(0);
  Operation *maker = logits.getDefiningOp();
  if (!maker || !cuts.contains(maker))
    return;
  Value whole = maker->getOperand(0);
  auto type = cast<RankedTensorType>(logits.getType());
  auto wide = cast<RankedTensorType>(whole.getType());
  if (type.getDimSize(0) != wide.getDimSize(0))
    return;
  // As in all kernels on 16-bit floats, the computation is in f32.
  Type computed = accumulatorType(wide.getElementType());
  bool narrow = computed != wide.getElementType();
  Location loc = op->getLoc();
  Value present = narrow ? nn::CastOp::create(b, loc, wide.clone(computed), whole) : whole;
  op->setOperand(0, nn::withoutClassesFrom(b, loc, present, type.getDimSize(1)));
  b.setInsertionPointAfter(op);
  for (OpResult result : op->getResults()) {
    if (result.getType() != type)
      continue;
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : result.getUses())
      uses.push_back(&use);
    result.setType(wide.clone(computed));
    Value part = cut(narrow ? Value(nn::CastOp::create(b, loc, wide, result)) : result, type);
    for (OpOperand *use : uses)
      use->set(part);
  }
}

void MatmulPadder::run(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    listener.current = &op;
    b.setInsertionPoint(&op);
    if (auto matmul = dyn_cast<nn::MatmulOp>(op))
      pad(matmul);
    else if (auto matmul = dyn_cast<nn::MatmulAddOp>(op))
      pad(matmul);
    else if (op.hasTrait<nn::AbsentClasses>())
      widen(&op);
  }
  for (Operation *op : cuts)
    if (op->use_empty())
      op->erase();
}

namespace {
struct PadMatmulsPass : shale::impl::PadMatmulsPassBase<PadMatmulsPass> {
  using PadMatmulsPassBase::PadMatmulsPassBase;
  void runOnOperation() override {
    const Target *target = targetOf(getOperation());
    if (!target)
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Block &block : function.getBody())
        MatmulPadder(*target, leastWork, &getContext()).run(block);
  }
};
} // namespace
