//===- AttentionSizes.h - Sizes of attention, from its types --------------===//
#ifndef SHALE_NN_ATTENTIONSIZES_H
#define SHALE_NN_ATTENTIONSIZES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeRange.h"
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
  /// Returns the sizes from the types of query, key and value with positions before heads, or of
  /// one tensor or buffer that holds the heads of all three, and of the result.
  static AttentionSizes get(mlir::TypeRange inputs, mlir::ShapedType result);

  /// Whether each key head serves the same number of query heads, at least one.
  bool sharesHeads() const { return keyHeads != 0 && heads != 0 && heads % keyHeads == 0; }
  /// Whether query, key and value have one length and depth, so that one tensor or buffer can hold
  /// the heads of all three.
  bool canPack() const { return depth == valueDepth && length == keyLength; }
  /// Returns the type of that tensor or buffer, [batch, length, heads + 2 keyHeads, depth]; the
  /// rest is as in `like`.
  mlir::ShapedType packedType(mlir::ShapedType like) const;
  /// Returns the floating-point operations of the two matmuls of a forward pass, over visible
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

/// The same for inputs with positions before heads: query, key and value, or one tensor or buffer
/// [batch, length, heads + 2 keyHeads, depth] that holds the heads of all three one after another.
std::optional<AttentionSizes> matchAttention(mlir::TypeRange inputs, mlir::ShapedType result,
                                             mlir::ShapedType lse);

/// Whether these are types of the gradients of inputs of these sizes: those of query, key and
/// value, or the packed type. `like` is the type of the result.
bool matchAttentionGradients(mlir::TypeRange gradients, const AttentionSizes &sizes,
                             mlir::ShapedType like);

} // namespace shale::nn

#endif // SHALE_NN_ATTENTIONSIZES_H
