//===- RecoverAttention.cpp - Scaled dot-product attention ----------------===//
#include "passes/import/Matchers.h"
#include "passes/import/Passes.h"
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>

namespace shale {
#define GEN_PASS_DEF_RECOVERATTENTIONPASS
#include "passes/import/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;
using namespace shale::recover;

namespace {

/// A score below this is as good as hidden: exp underflows in f32 and f64 alike
/// for any scores that a model has.
constexpr double kHidden = -9e3;

struct Mask {
  Value value; // null: none, or causal
  bool causal = false;
  bool mayHideRows = false;
};

} // namespace

/// What a constant mask, [.., T, S] with leading dimensions of any size, says.
static bool classifyConstant(DenseElementsAttr attr, int64_t queries,
                             int64_t keys, bool replaces, Mask &mask) {
  ArrayRef<int64_t> shape = attr.getType().getShape();
  if (attr.getNumElements() == 0)
    return false;
  int64_t rank = shape.size();
  int64_t rows = rank >= 2 ? shape[rank - 2] : 1,
          columns = rank >= 1 ? shape[rank - 1] : 1;
  if ((rows != queries && rows != 1) || (columns != keys && columns != 1))
    return false;
  bool isBool = attr.getElementType().isInteger(1);
  // Elements: whether hidden, and whether it adds nothing otherwise.
  bool causal = true, nothing = true, plain = true, rowHidden = false;
  int64_t index = 0;
  bool rowAll = true;
  auto visit = [&](bool hidden, bool zero) {
    int64_t column = index % columns, row = (index / columns) % rows;
    bool later = column > row + (keys - queries);
    causal &= hidden == later;
    nothing &= !hidden;
    plain &= hidden || zero;
    rowAll &= hidden;
    if (column == columns - 1) {
      rowHidden |= rowAll;
      rowAll = true;
    }
    ++index;
  };
  ArrayRef<char> raw = attr.getRawData();
  if (attr.getElementType().isF32() && !attr.isSplat() &&
      int64_t(raw.size()) == 4 * attr.getNumElements()) {
    for (int64_t i = 0; i < attr.getNumElements(); ++i) {
      float value;
      std::memcpy(&value, &raw[4 * i], 4);
      visit(value <= kHidden, value == 0);
    }
  } else if (isBool) {
    for (bool shown : attr.getValues<bool>())
      visit(!shown, true);
  } else {
    for (const APFloat &number : attr.getValues<APFloat>()) {
      APFloat wide = number;
      bool inexact;
      wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                   &inexact);
      double value = wide.convertToDouble();
      visit(value <= kHidden, value == 0);
    }
  }
  mask.mayHideRows = rowHidden;
  if (nothing && plain)
    return true;
  if (causal && plain && rows == queries && columns == keys && !rowHidden) {
    mask.causal = true;
    return true;
  }
  // Any other additive mask stays an operand; a replacing one would need -inf.
  return !replaces;
}

/// What stands behind a broadcast, as [1.., T, S] of rank 4 at most; null if
/// its dimensions are not the trailing ones.
static Value behindBroadcast(Value value) {
  auto broadcast = value.getDefiningOp<nn::BroadcastOp>();
  if (!broadcast)
    return value;
  int64_t rank = tensor(value).getRank(),
          inner = tensor(broadcast.getInput()).getRank();
  for (int64_t i = 0; i < inner; ++i)
    if (broadcast.getDims()[i] != rank - inner + i)
      return value;
  return broadcast.getInput();
}

namespace {
/// What constants say, by attribute and sizes: the layers of a model share one
/// mask, whose elements are looked at once.
class MaskCache {
public:
  bool classify(DenseElementsAttr attr, int64_t queries, int64_t keys,
                bool replaces, Mask &mask) {
    auto [it, fresh] = known.try_emplace(
        std::make_tuple(attr.getAsOpaquePointer(), queries, keys, replaces));
    if (fresh)
      it->second.first =
          classifyConstant(attr, queries, keys, replaces, it->second.second);
    mask = it->second.second;
    return it->second.first;
  }

private:
  std::map<std::tuple<const void *, int64_t, int64_t, bool>,
           std::pair<bool, Mask>>
      known;
};
} // namespace

static bool classifyMask(Value added, int64_t queries, int64_t keys,
                         MaskCache &cache, Mask &mask) {
  Value source = behindBroadcast(added);
  auto constant = source.getDefiningOp<nn::ConstantOp>();
  auto attr = constant ? dyn_cast<DenseElementsAttr>(constant.getValue())
                       : DenseElementsAttr();
  if (attr) {
    if (!cache.classify(attr, queries, keys, /*replaces=*/false, mask))
      return false;
    bool nothing = !mask.causal && attr.isSplat() && splatOf(source) == 0.0;
    mask.value = mask.causal || nothing ? Value() : source;
    return true;
  }
  mask.value = source;
  mask.mayHideRows = true;
  return true;
}

/// Keys or values [B, G, S, D] that are repeated to [B, H, S, D]; else the
/// value.
static Value peelGroups(Value value) {
  auto merge = value.getDefiningOp<nn::ReshapeOp>();
  auto repeat = merge ? merge.getInput().getDefiningOp<nn::BroadcastOp>()
                      : nn::BroadcastOp();
  if (!repeat || tensor(value).getRank() != 4 || tensor(repeat).getRank() != 5)
    return value;
  ArrayRef<int64_t> wide = tensor(repeat).getShape(),
                    out = tensor(value).getShape();
  // [B, G, R, S, D]: only R is repeated.
  if (wide[0] != out[0] || wide[1] * wide[2] != out[1] || wide[3] != out[2] ||
      wide[4] != out[3])
    return value;
  Value source = repeat.getInput();
  SmallVector<int64_t> sizes(5, 1),
      grouped = {wide[0], wide[1], wide[3], wide[4]};
  for (auto [i, dim] : llvm::enumerate(repeat.getDims()))
    sizes[dim] = tensor(source).getDimSize(i);
  if (sizes[2] != 1 || sizes[0] != wide[0] || sizes[1] != wide[1] ||
      sizes[3] != wide[3] || sizes[4] != wide[4])
    return value;
  if (llvm::equal(tensor(source).getShape(), grouped))
    return source;
  auto split = source.getDefiningOp<nn::ReshapeOp>();
  return split && llvm::equal(tensor(split.getInput()).getShape(), grouped)
             ? Value(split.getInput())
             : value;
}

/// Takes off factors and swaps of the last two dimensions, in any order.
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
  LogicalResult matchAndRewrite(nn::MatmulOp op,
                                PatternRewriter &rewriter) const override {
    if (tensor(op).getRank() != 4 || op.getTransposeLhs() ||
        op.getTransposeRhs())
      return failure();
    Value weights = op.getLhs();
    auto dropout = weights.getDefiningOp<nn::DropoutOp>();
    if (dropout)
      weights = dropout.getInput();
    // select(is_nan(p), 0, p)
    bool guarded = false;
    if (auto select = weights.getDefiningOp<nn::SelectOp>()) {
      auto isNan = select.getCondition().getDefiningOp<nn::IsNanOp>();
      if (!isNan || isNan.getInput() != select.getOnFalse() ||
          splatOf(select.getOnTrue()) != 0.0)
        return failure();
      weights = select.getOnFalse();
      guarded = true;
    }
    auto softmax = weights.getDefiningOp<nn::SoftmaxOp>();
    if (!softmax || (dropout && dropout.getGlobalShape()))
      return failure();
    int64_t queries = tensor(softmax).getDimSize(2),
            keys = tensor(softmax).getDimSize(3);

    // Scores, masked by a sum or by a choice.
    Value scores = softmax.getInput();
    Mask mask;
    double scale = 1;
    if (auto sum = scores.getDefiningOp<nn::AddOp>()) {
      bool found = eitherOrder(sum, [&](Value product, Value added) {
        double factor = 1;
        return peelScale(product, factor).getDefiningOp<nn::MatmulOp>() &&
               classifyMask(added, queries, keys, cache, mask) &&
               (scores = product, true);
      });
      if (!found)
        return failure();
    } else if (auto choice = scores.getDefiningOp<nn::SelectOp>()) {
      Value source = behindBroadcast(choice.getCondition());
      auto constant = source.getDefiningOp<nn::ConstantOp>();
      auto attr = constant ? dyn_cast<DenseElementsAttr>(constant.getValue())
                           : DenseElementsAttr();
      std::optional<double> hidden = splatOf(choice.getOnFalse());
      if (!attr || !hidden || !(*hidden <= kHidden) ||
          !cache.classify(attr, queries, keys, /*replaces=*/true, mask))
        return failure();
      scores = choice.getOnTrue();
    }
    if (guarded && mask.mayHideRows)
      return failure();

    auto product = peelScale(scores, scale).getDefiningOp<nn::MatmulOp>();
    if (!product || product.getTransposeLhs())
      return failure();
    bool transposed = !product.getTransposeRhs(); // whether rhs is [.., D, S]
    bool swapped = false;
    Value query = peelScale(product.getLhs(), scale),
          key = peelKey(product.getRhs(), scale, swapped);
    if (!std::isfinite(scale))
      return failure();
    if (transposed != swapped) { // no transpose to take off: put one
      ArrayRef<int64_t> shape = tensor(key).getShape();
      auto type =
          RankedTensorType::get({shape[0], shape[1], shape[3], shape[2]},
                                tensor(key).getElementType());
      key = nn::TransposeOp::create(rewriter, op.getLoc(), type, key,
                                    ArrayRef<int64_t>{0, 1, 3, 2});
    }
    Value value = op.getRhs(), groupedKey = peelGroups(key),
          groupedValue = peelGroups(value);
    if (tensor(groupedKey).getDimSize(1) ==
        tensor(groupedValue).getDimSize(1)) {
      key = groupedKey;
      value = groupedValue;
    }
    Value operand = mask.value;
    if (operand && tensor(operand).getRank() < 4) {
      SmallVector<int64_t> shape(tensor(operand).getShape());
      shape.insert(shape.begin(), 4 - shape.size(), 1);
      operand = nn::ReshapeOp::create(
          rewriter, op.getLoc(),
          RankedTensorType::get(shape, tensor(operand).getElementType()),
          operand);
    }
    auto lse = RankedTensorType::get(tensor(op).getShape().drop_back(),
                                     tensor(op).getElementType());
    auto attention = nn::AttentionOp::create(
        rewriter, op.getLoc(), TypeRange{op.getType(), lse}, query, key, value,
        operand, dropout ? dropout->getOperands().drop_front() : ValueRange(),
        mask.causal ? rewriter.getUnitAttr() : UnitAttr(),
        rewriter.getF64FloatAttr(scale),
        dropout ? nn::DropAttr::get(getContext(), dropout.getRatioAttr(),
                                    dropout.getId(), {})
                : nn::DropAttr());
    inherit(softmax, attention);
    rewriter.replaceOp(op, attention.getResult());
    return success();
  }
  MaskCache &cache;
};

struct RecoverAttentionPass
    : shale::impl::RecoverAttentionPassBase<RecoverAttentionPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    MaskCache cache;
    patterns.add<RecoverAttention>(&getContext(), cache);
    applyPatterns(getOperation(), std::move(patterns));
  }
};

} // namespace
