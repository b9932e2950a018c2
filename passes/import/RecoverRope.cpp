//===- RecoverRope.cpp - Rotary position embeddings -----------------------===//
#include "dialects/nn/Ops/Attention.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "passes/import/Matchers.h"
#include "passes/import/Passes.h"
#include <cstring>

namespace shale {
#define GEN_PASS_DEF_RECOVERROPEPASS
#include "passes/import/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;
using namespace shale::recover;

/// Returns the first half, [T, D / 2], of the rows [T, D] that a constant repeats
/// over all leading dimensions; null unless both halves are equal.
static DenseElementsAttr halfRows(Value value) {
  RankedTensorType out = tensor(value);
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, out.getRank()));
  if (auto broadcast = value.getDefiningOp<nn::BroadcastOp>()) {
    dims.assign(broadcast.getDims().begin(), broadcast.getDims().end());
    value = broadcast.getInput();
  }
  DenseElementsAttr attr = constantOf(value);
  int64_t rank = out.getRank();
  if (!attr || rank < 2 || dims.size() < 2 || !isa<FloatType>(attr.getElementType()))
    return {};
  ArrayRef<int64_t> shape = attr.getType().getShape();
  int64_t rows = out.getDimSize(rank - 2), width = out.getDimSize(rank - 1);
  if (dims.back() != rank - 1 || dims[dims.size() - 2] != rank - 2 || shape.back() != width ||
      shape[shape.size() - 2] != rows || width % 2 != 0)
    return {};
  int64_t plane = rows * width, half = width / 2, count = attr.getNumElements();
  ArrayRef<char> raw = attr.getRawData();
  int64_t bytes = int64_t(raw.size()) / std::max<int64_t>(1, count);
  if (attr.isSplat() || bytes * count != int64_t(raw.size()))
    return {};
  auto equal = [&](int64_t a, int64_t b, int64_t length) {
    return std::memcmp(&raw[a * bytes], &raw[b * bytes], length * bytes) == 0;
  };
  SmallVector<char> kept;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t at = row * width;
    if (!equal(at, at + half, half))
      return {};
    kept.append(&raw[at * bytes], &raw[at * bytes] + half * bytes);
  }
  for (int64_t i = plane; i < count; i += plane)
    if (!equal(0, i, plane))
      return {};
  return DenseElementsAttr::getFromRawBuffer(
      RankedTensorType::get({rows, half}, attr.getElementType()), kept);
}

/// Whether `value` is x[..., from : from + size] of the last dimension.
static bool isPart(Value value, Value x, int64_t from, int64_t size) {
  auto slice = value.getDefiningOp<nn::SliceOp>();
  if (!slice || slice.getInput() != x)
    return false;
  ArrayRef<int64_t> shape = tensor(x).getShape();
  for (size_t i = 0; i + 1 < shape.size(); ++i)
    if (slice.getStarts()[i] != 0 || slice.getLimits()[i] != shape[i] || slice.getStrides()[i] != 1)
      return false;
  return slice.getStarts().back() == from && slice.getLimits().back() == from + size &&
         slice.getStrides().back() == 1;
}

/// Whether `value` is concat(-x[half:], x[:half]).
static bool isRotated(Value value, Value x) {
  auto concat = value.getDefiningOp<nn::ConcatOp>();
  int64_t rank = tensor(x).getRank(), half = tensor(x).getShape().back() / 2;
  if (!concat || concat.getInputs().size() != 2 || int64_t(concat.getDim()) != rank - 1)
    return false;
  auto neg = concat.getInputs()[0].getDefiningOp<nn::NegOp>();
  return neg && isPart(neg.getInput(), x, half, half) && isPart(concat.getInputs()[1], x, 0, half);
}

namespace {

struct RecoverRope : OpRewritePattern<nn::AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::AddOp op, PatternRewriter &rewriter) const override {
    Value x, cosines, sines;
    bool found = eitherOrder(op, [&](Value plain, Value turned) {
      auto a = plain.getDefiningOp<nn::MulOp>(), b = turned.getDefiningOp<nn::MulOp>();
      return a && b && eitherOrder(a, [&](Value value, Value factor) {
               x = value;
               cosines = factor;
               return eitherOrder(b, [&](Value rotated, Value other) {
                 sines = other;
                 return isRotated(rotated, x);
               });
             });
    });
    if (!found || tensor(x).getRank() < 2)
      return failure();
    DenseElementsAttr cos = halfRows(cosines), sin = halfRows(sines);
    if (!cos || !sin)
      return failure();
    Value c = nn::ConstantOp::create(rewriter, op.getLoc(), cos),
          s = nn::ConstantOp::create(rewriter, op.getLoc(), sin);
    auto rope = nn::RopeOp::create(rewriter, op.getLoc(), op.getType(), x, c, s,
                                   /*interleaved=*/false, /*inverse=*/false, /*headed=*/false);
    inherit(op, rope);
    rewriter.replaceOp(op, rope);
    return success();
  }
};

struct RecoverRopePass : shale::impl::RecoverRopePassBase<RecoverRopePass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<RecoverRope>(&getContext());
    applyRecovery(getOperation(), std::move(patterns));
  }
};

} // namespace
