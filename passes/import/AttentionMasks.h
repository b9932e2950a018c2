//===- AttentionMasks.h - Masks of attention scores -----------------------===//
#ifndef SHALE_PASSES_IMPORT_ATTENTIONMASKS_H
#define SHALE_PASSES_IMPORT_ATTENTIONMASKS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "passes/import/Matchers.h"
#include "passes/import/Positions.h"
#include <algorithm>
#include <map>
#include <tuple>

namespace shale::recover {

/// The keys that are seen: those whose distance from the query, t + (S - T) - s, is in [low, high].
struct Band {
  static constexpr int64_t kFar = int64_t(1) << 62;
  int64_t low = -kFar, high = kFar;

  /// Returns the keys that are in both bands.
  Band operator&(const Band &other) const {
    return {std::max(low, other.low), std::min(high, other.high)};
  }
  bool isWhole() const { return low == -kFar && high == kFar; }
  bool isCausal() const { return low == 0; }
  /// Returns the `window` of `nn.attention`; 0 if there is none.
  int64_t getWindow() const { return high == kFar ? 0 : high + 1; }
  /// Whether `causal` and `window` of `nn.attention` describe the band.
  bool isExpressible() const {
    return isCausal() || low == -high; // also if nothing is hidden
  }
};

/// Classification of a constant mask, [.., T, S] with leading dimensions of any size.
struct ConstantMask {
  enum Kind {
    Unfit,   ///< has another shape
    Nothing, ///< hides nothing and adds nothing
    Banded,  ///< hides what is outside of `band` and nothing else
    Other
  } kind = Unfit;
  Band band;
  bool hidesRows = false; ///< whether some row is hidden entirely
  bool infinite = true;   ///< whether all elements that hide are -inf
};

/// Caches the classification of masks: the layers of a model share one mask,
/// whose elements are scanned once.
class MaskCache {
public:
  /// Classifies a constant, or a value that depends on positions alone; none for other values.
  /// `negated`: the mask is the negation of `value`, which is boolean.
  std::optional<ConstantMask> classify(mlir::Value value, bool negated, int64_t queries,
                                       int64_t keys);
  /// Returns the negation of a boolean constant.
  mlir::DenseElementsAttr negated(mlir::DenseElementsAttr attr);

private:
  PositionForms forms;
  std::map<std::tuple<const void *, int64_t, int64_t>, ConstantMask> known;
  llvm::DenseMap<const void *, mlir::DenseElementsAttr> negations;
};

/// The operands and attributes of `nn.attention` that compute the scores.
struct MaskedScores {
  mlir::Value matmul;           ///< scale * q k^T
  mlir::Value mask;             ///< added to the scores; rank 4, or null
  mlir::Value seen;             ///< booleans, false hides; rank 4, or null
  std::optional<double> hidden; ///< replaces a hidden score, or is added to it; none: -inf
  bool added = false;           ///< whether `hidden` is added
  Band band;                    ///< what `causal` and `window` describe
  bool mayHideRows = false;
};

/// Follows the scores [B, H, T, S] through additions of masks and selections by
/// masks to the matmul that computes them. Returns nothing if other ops
/// are in between, or if a mask has a gradient. Builds ops with `rewriter` that
/// combine several masks into one. `guarded`: NaNs of the softmax are replaced by
/// zero.
std::optional<MaskedScores> peelMasks(mlir::Value scores, bool guarded, MaskCache &cache,
                                      mlir::PatternRewriter &rewriter);

} // namespace shale::recover

#endif // SHALE_PASSES_IMPORT_ATTENTIONMASKS_H
