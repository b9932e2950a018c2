//===- AttentionMasks.h - Masks of attention scores -----------------------===//
#ifndef SHALE_PASSES_IMPORT_ATTENTIONMASKS_H
#define SHALE_PASSES_IMPORT_ATTENTIONMASKS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "passes/import/Matchers.h"
#include "passes/import/Positions.h"
#include <map>
#include <tuple>

namespace shale::recover {

/// Classification of a constant mask, [.., T, S] with leading dimensions of any size.
struct ConstantMask {
  enum Kind {
    Unfit,   ///< has another shape
    Nothing, ///< hides nothing and adds nothing
    Causal,  ///< hides later positions and nothing else
    Other
  } kind = Unfit;
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
  mlir::Value product;          ///< scale * q k^T
  mlir::Value mask;             ///< added to the scores; rank 4, or null
  mlir::Value seen;             ///< booleans, false hides; rank 4, or null
  std::optional<double> hidden; ///< replaces a hidden score, or is added to it; none: -inf
  bool added = false;           ///< whether `hidden` is added
  bool causal = false;
  bool mayHideRows = false;
};

/// Follows the scores [B, H, T, S] through additions of masks and selections by
/// masks to the matrix product that computes them. Returns nothing if other ops
/// are in between, or if a mask has a gradient. Builds ops with `rewriter` that
/// combine several masks into one. `guarded`: NaNs of the softmax are replaced by
/// zero.
std::optional<MaskedScores> peelMasks(mlir::Value scores, bool guarded, MaskCache &cache,
                                      mlir::PatternRewriter &rewriter);

} // namespace shale::recover

#endif // SHALE_PASSES_IMPORT_ATTENTIONMASKS_H
