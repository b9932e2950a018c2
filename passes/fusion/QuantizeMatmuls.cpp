//===- QuantizeMatmuls.cpp - Rounds operands to 8-bit floats --------------===//
#include "dialects/nn/Decompose/Composer.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Quantize.h"
#include "lib/Support/OpCopies.h"
#include "lib/Support/Remarks.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/fusion/Passes.h"
#include "llvm/Support/FormatVariadic.h"

namespace shale {
#define GEN_PASS_DEF_QUANTIZEMATMULSPASS
#include "passes/fusion/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;

namespace {

/// GPUs multiply 8-bit floats in units of 16 bytes.
constexpr int64_t kUnit = 16;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// The factor by which a tensor is multiplied, and its inverse: f32 of rank 0.
struct Scale {
  Value factor, inverse;
};

/// Replaces the matmuls of one block, in order.
class Quantizer {
public:
  explicit Quantizer(MLIRContext *context) : b(context, &listener) {}

  /// Returns the number of matmuls that are replaced.
  int64_t run(Block &block) {
    int64_t replaced = 0;
    for (nn::MatmulOp op : llvm::make_early_inc_range(block.getOps<nn::MatmulOp>()))
      if (op.getQuantizedAttr())
        replaced += replace(op);
    return replaced;
  }

private:
  bool replace(nn::MatmulOp op) {
    Type left = op.getQuantizedType(0), right = op.getQuantizedType(1);
    int64_t m = typeOf(op.getResult()).getDimSize(0), n = typeOf(op.getResult()).getDimSize(1);
    int64_t k = typeOf(op.getLhs()).getDimSize(op.getTransposeLhs() ? 0 : 1);
    for (int64_t size : {m, n, k})
      if (size % kUnit != 0 || size == 0) {
        emitDecision(op.getLoc(), "quantize-matmuls",
                     llvm::formatv("operands of a matmul of {0} x {1} x {2} stay as they are: "
                                   "these sizes are not all multiples of {3}",
                                   m, n, k, kUnit)
                         .str());
        op.removeQuantizedAttr();
        return false;
      }
    listener.current = op;
    b.setInsertionPoint(op);
    Value lhs = quantized(op, op.getLhs(), left, op.getTransposeLhs());
    Value rhs = quantized(op, op.getRhs(), right, !op.getTransposeRhs());
    Value matmul = nn::QuantizedMatmulOp::create(b, op.getLoc(), op.getType(), lhs, rhs,
                                                 scaleOf(op, op.getLhs(), left).inverse,
                                                 scaleOf(op, op.getRhs(), right).inverse);
    op.replaceAllUsesWith(matmul);
    op.erase();
    return true;
  }

  /// Returns the value, or its transpose, times its scale, in 8-bit floats.
  Value quantized(nn::MatmulOp op, Value value, Type element, bool transposed) {
    Value &made = copies[{value, {element, nn::phaseOf(op)}}][transposed];
    if (made)
      return made;
    nn::Composer c(b, op);
    if (transposed)
      return made = c.transpose(quantized(op, value, element, false), {1, 0});
    Value factor = scaleOf(op, value, element).factor;
    Value wide = c.cast(value, b.getF32Type());
    return made = nn::QuantizeOp::create(b, op.getLoc(), typeOf(wide).clone(element),
                                         c.mul(wide, c.scalar(factor, wide)));
  }

  /// As torchao computes it (float8_utils.py, amax_to_scale), in f32: the quotient of two numbers
  /// of f32 is the same when it is computed in f64 and rounded.
  Scale scaleOf(nn::MatmulOp op, Value value, Type element) {
    Scale &made = scales[{value, element}];
    if (made.factor)
      return made;
    nn::Composer c(b, op);
    Value wide = c.cast(value, b.getF32Type());
    auto scalar = RankedTensorType::get({}, b.getF32Type());
    Value size = c.abs(wide);
    Value largest =
        c.max(c.reduce(nn::ReduceKind::Max, c.reduce(nn::ReduceKind::Max, size, {1}), {0}),
              c.splat(scalar, nn::kLeastMagnitude));
    made.factor = c.div(c.splat(scalar, nn::largestFloat8(element)), largest);
    made.inverse = c.div(c.splat(scalar, 1), made.factor);
    return made;
  }

  CopyAttributes listener;
  OpBuilder b;
  /// By value, type and phase: a copy does not live from the forward to the backward pass. As it is
  /// and transposed.
  DenseMap<std::pair<Value, std::pair<Type, Attribute>>, std::array<Value, 2>> copies;
  DenseMap<std::pair<Value, Type>, Scale> scales;
};

struct QuantizeMatmulsPass : shale::impl::QuantizeMatmulsPassBase<QuantizeMatmulsPass> {
  using QuantizeMatmulsPassBase::QuantizeMatmulsPassBase;

  void runOnOperation() override {
    bool marked = false;
    int64_t replaced = 0;
    getOperation().walk([&](nn::MatmulOp op) { marked |= bool(op.getQuantizedAttr()); });
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Block &block : function.getBody())
        replaced += Quantizer(&getContext()).run(block);
    if (marked && replaced == 0)
      getOperation().emitWarning("no matmul has operands of 8-bit floats: no matmul's sizes are "
                                 "all multiples of 16 on a rank");
  }
};

} // namespace
