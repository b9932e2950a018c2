//===- AttentionMasks.h - What is done to scores before their softmax -----===//
#ifndef SHALE_PASSES_IMPORT_ATTENTIONMASKS_H
#define SHALE_PASSES_IMPORT_ATTENTIONMASKS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "passes/import/Matchers.h"
#include <map>
#include <tuple>

namespace shale::recover {

/// What a constant mask, [.., T, S] with leading dimensions of any size, says.
struct ConstantMask {
  enum Kind {
    Unfit,   ///< of another shape
    Nothing, ///< hides nothing and adds nothing
    Causal,  ///< hides later positions and nothing else
    Other
  } kind = Unfit;
  bool hidesRows = false; ///< all of some row
  bool infinite = true;   ///< what hides is -inf
};

/// Remembers what constants say: the layers of a model share one mask, whose
/// elements are looked at once.
class MaskCache {
public:
  const ConstantMask &classify(mlir::DenseElementsAttr attr, int64_t queries, int64_t keys);
  /// The negation of a constant of truth values.
  mlir::DenseElementsAttr negated(mlir::DenseElementsAttr attr);

private:
  std::map<std::tuple<const void *, int64_t, int64_t>, ConstantMask> known;
  llvm::DenseMap<const void *, mlir::DenseElementsAttr> negations;
};

/// Scores as `nn.attention` takes them.
struct MaskedScores {
  mlir::Value product;  ///< scale * q k^T
  mlir::Value mask;     ///< is added; rank 4, or null
  mlir::Value seen;     ///< truth values; rank 4, or null
  std::optional<double> hidden; ///< in the place of a score, or added; none: -inf
  bool added = false;
  bool causal = false;
  bool mayHideRows = false;
};

/// Follows the scores [B, H, T, S] through sums with masks and choices by them
/// down to the product that they come from. Nothing when that is not all there
/// is, or when a mask has a gradient. Makes ops at `rewriter` for masks that
/// hold several. `guarded`: what is NaN behind the softmax becomes zero.
std::optional<MaskedScores> peelMasks(mlir::Value scores, bool guarded, MaskCache &cache, mlir::PatternRewriter &rewriter);

} // namespace shale::recover

#endif // SHALE_PASSES_IMPORT_ATTENTIONMASKS_H
