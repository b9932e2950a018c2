//===- AttentionSizes.h - Sizes of attention, from its types --------------===//
#ifndef SHALE_NN_ATTENTIONSIZES_H
#define SHALE_NN_ATTENTIONSIZES_H

#include "mlir/IR/BuiltinTypes.h"
#include <optional>

namespace shale::nn {

/// The order of dimensions in query, key, value and result: [batch, heads, positions, features] or
/// [batch, positions, heads, features].
enum class HeadOrder { HeadsFirst, PositionsFirst };

struct AttentionSizes {
  int64_t batch, heads, keyHeads, length, keyLength, depth, valueDepth;

  /// Returns the sizes from the types of query, key and value, which have rank 4.
  static AttentionSizes get(mlir::ShapedType query, mlir::ShapedType key, mlir::ShapedType value,
                            HeadOrder order);

  /// Whether each key head serves the same number of query heads, at least one.
  bool sharesHeads() const { return keyHeads != 0 && heads != 0 && heads % keyHeads == 0; }
  /// Returns the floating-point operations of the two products of a forward pass, over visible
  /// pairs of positions only.
  int64_t getFlops(bool causal, std::optional<int64_t> window) const;
};

/// Returns the sizes if tensors or buffers of these types fit together: query [batch, heads,
/// length, depth], key [batch, keyHeads, keyLength, depth], value [batch, keyHeads, keyLength,
/// valueDepth] and result [batch, heads, length, valueDepth] of one element type, in this order of
/// dimensions, and lse [batch, heads, length] of that type or of the type in which it is summed.
std::optional<AttentionSizes> matchAttention(mlir::ShapedType query, mlir::ShapedType key,
                                             mlir::ShapedType value, mlir::ShapedType result,
                                             mlir::ShapedType lse, HeadOrder order);

} // namespace shale::nn

#endif // SHALE_NN_ATTENTIONSIZES_H
