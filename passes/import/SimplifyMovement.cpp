//===- SimplifyMovement.cpp - Removes redundant data movement -------------===//
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Matmul.h"
#include "passes/import/Matchers.h"
#include "passes/import/Passes.h"

namespace shale {
#define GEN_PASS_DEF_SIMPLIFYMOVEMENTPASS
#include "passes/import/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;
using namespace shale::recover;

namespace {

/// Rewrites reshape(transpose(reshape(x))) to transpose(reshape(x)) if the leading
/// dimension of the transpose stays first and is only split.
struct TransposeThroughReshape : OpRewritePattern<nn::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::ReshapeOp op, PatternRewriter &rewriter) const override {
    auto transpose = op.getInput().getDefiningOp<nn::TransposeOp>();
    if (!transpose || transpose.getPerm().size() < 2 || transpose.getPerm()[0] != 0)
      return failure();
    auto inner = transpose.getInput().getDefiningOp<nn::ReshapeOp>();
    if (!inner)
      return failure();
    ArrayRef<int64_t> out = tensor(op).getShape(), turned = tensor(transpose).getShape();
    size_t tail = turned.size() - 1;
    if (out.size() < turned.size() || out.take_back(tail) != turned.drop_front())
      return failure();
    // The leading dimensions of `out` are those that were merged.
    SmallVector<int64_t> shape(out.drop_back(tail)),
        perm = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
    size_t lead = shape.size();
    llvm::append_range(shape, tensor(transpose.getInput()).getShape().drop_front());
    for (int64_t p : transpose.getPerm().drop_front())
      perm.push_back(p - 1 + lead);
    auto split = nn::ReshapeOp::create(rewriter, op.getLoc(),
                                       RankedTensorType::get(shape, tensor(op).getElementType()),
                                       inner.getInput());
    inherit(inner, split);
    auto whole = nn::TransposeOp::create(rewriter, op.getLoc(), op.getType(), split, perm);
    inherit(transpose, whole);
    rewriter.replaceOp(op, whole);
    return success();
  }
};

struct ReshapeOfReshape : OpRewritePattern<nn::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::ReshapeOp op, PatternRewriter &rewriter) const override {
    if (op.getInput().getType() == op.getType()) {
      rewriter.replaceOp(op, op.getInput());
      return success();
    }
    auto inner = op.getInput().getDefiningOp<nn::ReshapeOp>();
    if (!inner)
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.getInputMutable().assign(inner.getInput()); });
    return success();
  }
};

struct TransposeOfTranspose : OpRewritePattern<nn::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::TransposeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<nn::TransposeOp>();
    if (!inner)
      return failure();
    SmallVector<int64_t> perm;
    for (int64_t p : op.getPerm())
      perm.push_back(inner.getPerm()[p]);
    if (llvm::equal(perm, llvm::seq<int64_t>(0, perm.size()))) {
      rewriter.replaceOp(op, inner.getInput());
      return success();
    }
    auto one = nn::TransposeOp::create(rewriter, op.getLoc(), op.getType(), inner.getInput(), perm);
    inherit(op, one);
    rewriter.replaceOp(op, one);
    return success();
  }
};

/// Folds a transpose of the last two dimensions into the matmul that reads it.
struct MatmulOfTranspose : OpRewritePattern<nn::MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::MatmulOp op, PatternRewriter &rewriter) const override {
    auto swapped = [](Value value) -> Value {
      auto transpose = value.getDefiningOp<nn::TransposeOp>();
      if (!transpose)
        return {};
      SmallVector<int64_t> perm(transpose.getPerm());
      std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
      return llvm::equal(perm, llvm::seq<int64_t>(0, perm.size())) ? Value(transpose.getInput())
                                                                   : Value();
    };
    Value lhs = swapped(op.getLhs()), rhs = swapped(op.getRhs());
    if (!lhs && !rhs)
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      if (lhs) {
        op.getLhsMutable().assign(lhs);
        op.setTransposeLhs(!op.getTransposeLhs());
      }
      if (rhs) {
        op.getRhsMutable().assign(rhs);
        op.setTransposeRhs(!op.getTransposeRhs());
      }
    });
    return success();
  }
};

struct SimplifyMovementPass : shale::impl::SimplifyMovementPassBase<SimplifyMovementPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns
        .add<TransposeThroughReshape, ReshapeOfReshape, TransposeOfTranspose, MatmulOfTranspose>(
            &getContext());
    applyPatterns(getOperation(), std::move(patterns));
  }
};

} // namespace
