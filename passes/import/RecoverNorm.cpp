//===- RecoverNorm.cpp - Layer and RMS normalization ----------------------===//
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Norm.h"
#include "dialects/nn/Ops/Reduce.h"
#include "passes/import/Matchers.h"
#include "passes/import/Passes.h"
#include <cmath>

namespace shale {
#define GEN_PASS_DEF_RECOVERNORMPASS
#include "passes/import/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;
using namespace shale::recover;

/// Returns x if `value` is the mean of x over its last dimension; else null.
static Value meanOf(Value value) {
  double scale = 1;
  value = peelUnits(peelScale(peelUnits(value), scale));
  auto reduce = value.getDefiningOp<nn::ReduceOp>();
  if (!reduce || reduce.getKind() != nn::ReduceKind::Sum)
    return {};
  RankedTensorType type = tensor(reduce.getInput());
  if (reduce.getDims() != ArrayRef<int64_t>{type.getRank() - 1} ||
      !isClose(scale * double(type.getShape().back()), 1))
    return {};
  return reduce.getInput();
}

/// Returns x if `value` is mean(x * x) + epsilon; else null.
static Value meanSquareOf(Value value, double &epsilon) {
  value = peelUnits(value);
  auto sum = value.getDefiningOp<nn::AddOp>();
  Value x;
  if (sum)
    eitherOrder(sum, [&](Value mean, Value constant) {
      std::optional<double> splat = splatOf(constant);
      Value square = splat ? meanOf(mean) : Value();
      auto product = square ? square.getDefiningOp<nn::MulOp>() : nn::MulOp();
      if (!product || product.getLhs() != product.getRhs() || !(*splat >= 0) ||
          !std::isfinite(*splat))
        return false;
      epsilon = *splat;
      x = product.getLhs();
      return true;
    });
  return x;
}

/// Returns y if `value` is y / sqrt(mean(x^2) + epsilon), in any form; else null.
/// Sets `x` and `epsilon`.
static Value normalized(Value value, Value &x, double &epsilon) {
  Value y;
  if (auto quotient = value.getDefiningOp<nn::DivOp>()) {
    Value row = peelRowBroadcast(quotient.getRhs());
    auto root = row ? peelUnits(row).getDefiningOp<nn::SqrtOp>() : nn::SqrtOp();
    if (root && (x = meanSquareOf(root.getInput(), epsilon)))
      y = quotient.getLhs();
    return y;
  }
  auto product = value.getDefiningOp<nn::MulOp>();
  if (!product)
    return {};
  eitherOrder(product, [&](Value kept, Value factor) {
    Value row = peelRowBroadcast(factor);
    if (!row)
      return false;
    row = peelUnits(row);
    if (auto rsqrt = row.getDefiningOp<nn::RsqrtOp>())
      x = meanSquareOf(rsqrt.getInput(), epsilon);
    else if (auto inverse = row.getDefiningOp<nn::DivOp>(); inverse && isSplat(inverse.getLhs(), 1))
      if (auto root = peelUnits(inverse.getRhs()).getDefiningOp<nn::SqrtOp>())
        x = meanSquareOf(root.getInput(), epsilon);
    if (x)
      y = kept;
    return bool(x);
  });
  return y;
}

/// Returns the vector that `value` repeats for every row, or null.
static Value rowVector(Value value) {
  auto broadcast = value.getDefiningOp<nn::BroadcastOp>();
  if (!broadcast)
    return {};
  Value vector = peelUnits(broadcast.getInput());
  RankedTensorType type = tensor(vector);
  bool isLast =
      !broadcast.getDims().empty() && broadcast.getDims().back() == tensor(value).getRank() - 1;
  return isLast && type.getRank() == 1 && type.getDimSize(0) == tensor(value).getShape().back()
             ? vector
             : Value();
}

static RankedTensorType rowsOf(Value x) {
  return RankedTensorType::get(tensor(x).getShape().drop_back(), tensor(x).getElementType());
}

namespace {

struct RecoverRmsNorm : OpRewritePattern<nn::MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::MulOp op, PatternRewriter &rewriter) const override {
    Value x, scale;
    double epsilon = 0;
    bool found = eitherOrder(op, [&](Value a, Value b) {
      scale = rowVector(a);
      x = {};
      return scale && normalized(b, x, epsilon) == x && x;
    });
    if (!found || x.getDefiningOp<nn::SubOp>()) // a layer norm without bias
      return failure();
    auto norm = nn::RmsNormOp::create(rewriter, op.getLoc(), TypeRange{x.getType(), rowsOf(x)}, x,
                                      scale, rewriter.getF64FloatAttr(epsilon));
    inherit(op, norm);
    rewriter.replaceOp(op, norm.getResult());
    return success();
  }
};

/// Returns x if `value` is x - mean(x); else null.
static Value centred(Value value) {
  auto difference = value.getDefiningOp<nn::SubOp>();
  Value row = difference ? peelRowBroadcast(difference.getRhs()) : Value();
  return row && meanOf(row) == difference.getLhs() ? Value(difference.getLhs()) : Value();
}

struct RecoverLayerNorm : OpRewritePattern<nn::AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::AddOp op, PatternRewriter &rewriter) const override {
    Value x, scale, bias;
    double epsilon = 0;
    bool found = eitherOrder(op, [&](Value product, Value shift) {
      bias = rowVector(shift);
      auto mul = product.getDefiningOp<nn::MulOp>();
      return bias && mul && eitherOrder(mul, [&](Value a, Value b) {
               Value squared;
               scale = rowVector(a);
               Value y = scale ? normalized(b, squared, epsilon) : Value();
               x = y ? centred(y) : Value();
               // The same difference, or an equal one computed separately.
               return x && (squared == y || centred(squared) == x);
             });
    });
    if (!found)
      return failure();
    auto norm =
        nn::LayerNormOp::create(rewriter, op.getLoc(), TypeRange{x.getType(), rowsOf(x), rowsOf(x)},
                                x, scale, bias, rewriter.getF64FloatAttr(epsilon));
    inherit(op, norm);
    rewriter.replaceOp(op, norm.getResult());
    return success();
  }
};

struct RecoverNormPass : shale::impl::RecoverNormPassBase<RecoverNormPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<RecoverRmsNorm, RecoverLayerNorm>(&getContext());
    applyRecovery(getOperation(), std::move(patterns));
  }
};

} // namespace
