//===- RecoverAttention.cpp - Scaled dot-product attention ----------------===//
#include "dialects/nn/Ops/Attention.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Norm.h"
#include "dialects/nn/Ops/Random.h"
#include "passes/import/AttentionMasks.h"
#include "passes/import/Passes.h"
#include <cmath>

namespace shale {
#define GEN_PASS_DEF_RECOVERATTENTIONPASS
#include "passes/import/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;
using namespace shale::recover;

/// Returns the keys or values [B, G, S, D] that are repeated to [B, H, S, D], or
/// `value` if it is not such a repetition.
static Value peelGroups(Value value) {
  auto merge = value.getDefiningOp<nn::ReshapeOp>();
  auto repeat = merge ? merge.getInput().getDefiningOp<nn::BroadcastOp>() : nn::BroadcastOp();
  if (!repeat || tensor(value).getRank() != 4 || tensor(repeat).getRank() != 5)
    return value;
  ArrayRef<int64_t> wide = tensor(repeat).getShape(), out = tensor(value).getShape();
  // [B, G, R, S, D]: only R is repeated.
  if (wide[0] != out[0] || wide[1] * wide[2] != out[1] || wide[3] != out[2] || wide[4] != out[3])
    return value;
  Value source = repeat.getInput();
  SmallVector<int64_t> sizes(5, 1), grouped = {wide[0], wide[1], wide[3], wide[4]};
  for (auto [i, dim] : llvm::enumerate(repeat.getDims()))
    sizes[dim] = tensor(source).getDimSize(i);
  if (sizes[2] != 1 || sizes[0] != wide[0] || sizes[1] != wide[1] || sizes[3] != wide[3] ||
      sizes[4] != wide[4])
    return value;
  if (llvm::equal(tensor(source).getShape(), grouped))
    return source;
  auto split = source.getDefiningOp<nn::ReshapeOp>();
  return split && llvm::equal(tensor(split.getInput()).getShape(), grouped)
             ? Value(split.getInput())
             : value;
}

/// Strips factors and transposes of the last two dimensions, in any order.
static Value peelKey(Value value, double &scale, bool &transposed) {
  while (true) {
    Value next = peelScale(value, scale);
    if (auto transpose = next.getDefiningOp<nn::TransposeOp>();
        transpose && transpose.getPerm() == ArrayRef<int64_t>{0, 1, 3, 2}) {
      transposed = !transposed;
      next = transpose.getInput();
    }
    if (next == value)
      return value;
    value = next;
  }
}

namespace {

struct RecoverAttention : OpRewritePattern<nn::MatmulOp> {
  RecoverAttention(MLIRContext *context, MaskCache &cache)
      : OpRewritePattern(context), cache(cache) {}
  LogicalResult matchAndRewrite(nn::MatmulOp op, PatternRewriter &rewriter) const override {
    if (tensor(op).getRank() != 4 || op.getTransposeLhs() || op.getTransposeRhs())
      return failure();
    Value weights = op.getLhs();
    auto dropout = weights.getDefiningOp<nn::DropoutOp>();
    if (dropout)
      weights = dropout.getInput();
    // select(is_nan(p), 0, p)
    bool guarded = false;
    if (auto select = weights.getDefiningOp<nn::SelectOp>()) {
      auto isNan = select.getCondition().getDefiningOp<nn::IsNanOp>();
      if (!isNan || isNan.getInput() != select.getOnFalse() || splatOf(select.getOnTrue()) != 0.0)
        return failure();
      weights = select.getOnFalse();
      guarded = true;
    }
    auto softmax = weights.getDefiningOp<nn::SoftmaxOp>();
    if (!softmax || (dropout && dropout.getGlobalShape()))
      return failure();
    std::optional<MaskedScores> masked = peelMasks(softmax.getInput(), guarded, cache, rewriter);
    if (!masked)
      return failure();
    double scale = 1;
    auto matmul = peelScale(masked->matmul, scale).getDefiningOp<nn::MatmulOp>();
    if (!matmul || matmul.getTransposeLhs())
      return failure();
    bool transposed = !matmul.getTransposeRhs(); // whether rhs is [.., D, S]
    bool swapped = false;
    Value query = peelScale(matmul.getLhs(), scale), key = peelKey(matmul.getRhs(), scale, swapped);
    if (!std::isfinite(scale))
      return failure();
    if (transposed != swapped) { // the key is [B, H, D, S]: transpose it
      ArrayRef<int64_t> shape = tensor(key).getShape();
      auto type = RankedTensorType::get({shape[0], shape[1], shape[3], shape[2]},
                                        tensor(key).getElementType());
      key =
          nn::TransposeOp::create(rewriter, op.getLoc(), type, key, ArrayRef<int64_t>{0, 1, 3, 2});
    }
    Value value = op.getRhs(), groupedKey = peelGroups(key), groupedValue = peelGroups(value);
    if (tensor(groupedKey).getDimSize(1) == tensor(groupedValue).getDimSize(1)) {
      key = groupedKey;
      value = groupedValue;
    }
    auto lse =
        RankedTensorType::get(tensor(op).getShape().drop_back(), tensor(op).getElementType());
    auto unit = [&](bool set) { return set ? rewriter.getUnitAttr() : UnitAttr(); };
    auto attention = nn::AttentionOp::create(
        rewriter, op.getLoc(), TypeRange{op.getType(), lse}, query, key, value, masked->mask,
        masked->seen, dropout ? dropout->getOperands().drop_front() : ValueRange(),
        masked->hidden ? rewriter.getF64FloatAttr(*masked->hidden) : FloatAttr(),
        unit(masked->added), unit(guarded && masked->mayHideRows), unit(masked->band.isCausal()),
        masked->band.getWindow() ? rewriter.getI64IntegerAttr(masked->band.getWindow())
                                 : IntegerAttr(),
        rewriter.getF64FloatAttr(scale),
        dropout ? nn::DropAttr::get(getContext(), dropout.getRatioAttr(), dropout.getId(), {})
                : nn::DropAttr());
    inherit(softmax, attention);
    rewriter.replaceOp(op, attention.getResult());
    return success();
  }
  MaskCache &cache;
};

/// Turns a mask of an op that import made into `causal` and `window`, or leaves it out if it hides
/// nothing. The op's gradient, which reads the same mask, changes with it.
struct SimplifyMask : OpRewritePattern<nn::AttentionOp> {
  SimplifyMask(MLIRContext *context, MaskCache &cache) : OpRewritePattern(context), cache(cache) {}
  LogicalResult matchAndRewrite(nn::AttentionOp op, PatternRewriter &rewriter) const override {
    Value mask = op.getMask();
    if (!mask || op.getSeen() || op.getWindow())
      return failure();
    std::optional<ConstantMask> found =
        cache.classify(mask, /*negated=*/false, tensor(op.getQuery()).getDimSize(2),
                       tensor(op.getKey()).getDimSize(2));
    if (!found || found->hidesRows ||
        !(found->kind == ConstantMask::Nothing ||
          (found->kind == ConstantMask::Banded && found->infinite)))
      return failure();
    Band band = found->band;
    if (op.getCausal())
      band = band & Band{0, Band::kFar};
    SmallVector<nn::AttentionGradOp> gradients;
    for (Operation *user : op.getLse().getUsers())
      if (auto gradient = dyn_cast<nn::AttentionGradOp>(user);
          gradient && gradient.getMask() == mask)
        gradients.push_back(gradient);
    if (!band.isExpressible())
      return failure();
    auto simplify = [&](auto one) {
      rewriter.modifyOpInPlace(one, [&] {
        one.getMaskMutable().clear();
        one.setGuard(false);
        one.setCausal(band.isCausal());
        if (band.getWindow())
          one.setWindow(band.getWindow());
      });
    };
    simplify(op);
    llvm::for_each(gradients, simplify);
    return success();
  }
  MaskCache &cache;
};

struct RecoverAttentionPass : shale::impl::RecoverAttentionPassBase<RecoverAttentionPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    MaskCache cache;
    patterns.add<RecoverAttention>(&getContext(), cache);
    applyRecovery(getOperation(), std::move(patterns));
    RewritePatternSet masks(&getContext());
    masks.add<SimplifyMask>(&getContext(), cache);
    applyPatterns(getOperation(), std::move(masks));
  }
};

} // namespace
