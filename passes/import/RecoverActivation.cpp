//===- RecoverActivation.cpp - GELU and SiLU ------------------------------===//
#include "dialects/nn/Ops/Elementwise.h"
#include "passes/import/Matchers.h"
#include "passes/import/Passes.h"
#include <cmath>

namespace shale {
#define GEN_PASS_DEF_RECOVERACTIVATIONPASS
#include "passes/import/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;
using namespace shale::recover;

/// Whether `value` is x * x * x.
static bool isCube(Value value, Value x) {
  auto product = value.getDefiningOp<nn::MulOp>();
  return product && eitherOrder(product, [&](Value a, Value b) {
           auto square = a.getDefiningOp<nn::MulOp>();
           return b == x && square && square.getLhs() == x && square.getRhs() == x;
         });
}

/// Whether `gate` is 1 + erf(x / sqrt(2)), or the approximation by tanh.
static bool isGate(Value gate, Value x, bool &isTanh) {
  auto sum = gate.getDefiningOp<nn::AddOp>();
  return sum && eitherOrder(sum, [&](Value one, Value bent) {
           if (!isSplat(one, 1))
             return false;
           double scale = 1;
           if (auto erf = bent.getDefiningOp<nn::ErfOp>())
             return peelScale(erf.getInput(), scale) == x && isClose(scale, std::sqrt(0.5)) &&
                    (isTanh = false, true);
           auto tanh = bent.getDefiningOp<nn::TanhOp>();
           auto inner =
               tanh ? peelScale(tanh.getInput(), scale).getDefiningOp<nn::AddOp>() : nn::AddOp();
           return inner && isClose(scale, std::sqrt(2 / M_PI)) &&
                  eitherOrder(inner,
                              [&](Value a, Value b) {
                                double cubic = 1;
                                return a == x && isCube(peelScale(b, cubic), x) &&
                                       isClose(cubic, 0.044715);
                              }) &&
                  (isTanh = true, true);
         });
}

namespace {

struct RecoverGelu : OpRewritePattern<nn::MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::MulOp op, PatternRewriter &rewriter) const override {
    double scale = 1;
    auto product = peelScale(op, scale).getDefiningOp<nn::MulOp>();
    if (!product)
      return failure();
    Value x;
    bool isTanh = false;
    bool found = eitherOrder(product, [&](Value a, Value b) {
      double total = scale;
      Value gate = peelScale(b, total);
      x = peelScale(a, total);
      if (isClose(total, 0.5) && isGate(gate, x, isTanh))
        return true;
      // A factor of x may belong to x itself.
      double gateOnly = scale;
      gate = peelScale(b, gateOnly);
      x = a;
      return isClose(gateOnly, 0.5) && isGate(gate, x, isTanh);
    });
    if (!found)
      return failure();
    auto gelu = nn::GeluOp::create(rewriter, op.getLoc(), op.getType(), x, isTanh);
    inherit(op, gelu);
    rewriter.replaceOp(op, gelu);
    return success();
  }
};

struct RecoverSilu : OpRewritePattern<nn::MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::MulOp op, PatternRewriter &rewriter) const override {
    Value x;
    if (!eitherOrder(op, [&](Value a, Value b) {
          auto sigmoid = b.getDefiningOp<nn::SigmoidOp>();
          x = a;
          return sigmoid && sigmoid.getInput() == a;
        }))
      return failure();
    auto silu = nn::SiluOp::create(rewriter, op.getLoc(), op.getType(), x);
    inherit(op, silu);
    rewriter.replaceOp(op, silu);
    return success();
  }
};

struct RecoverActivationPass : shale::impl::RecoverActivationPassBase<RecoverActivationPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<RecoverGelu, RecoverSilu>(&getContext());
    applyRecovery(getOperation(), std::move(patterns));
  }
};

} // namespace
