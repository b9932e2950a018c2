//===- Attend.h - Attention that several operators build ------------------===//
#ifndef SHALE_FRONTEND_ONNX_OPS_ATTEND_H
#define SHALE_FRONTEND_ONNX_OPS_ATTEND_H

#include "lib/Frontend/ONNX/Ops/Ops.h"

namespace shale::onnx {

/// The operands of an attention operator. B is the batch, H and G are the heads of queries and of
/// keys, T and S their positions.
struct Attend {
  Tensor query, key, value; // [B, H, T, D], [B, G, S, D], [B, G, S, E]
  /// Added to the scores, if given; broadcast to [B, H, T, S].
  Tensor added = {};
  /// Truth values: a score is hidden where it is false. Broadcast to [B, H, T, S].
  Tensor seen = {};
  /// A number that is added to scores that `seen` hides. If absent, these scores are -inf.
  std::optional<double> hidden = {};
  /// Position t is number t + offset among the keys.
  int64_t offset = 0;
  bool causal = false;
  /// How many keys before and after its own a position sees; -1: all.
  int64_t before = -1, after = -1;
  double scale = 1;
  /// Scores become softcap * tanh(scores / softcap); 0: they do not.
  double softcap = 0;
};

/// Scores, [B, H, T, S]: scaled matmuls, after the cap, with masks, and the weights of a softmax of
/// these.
using AttendScores = std::array<Tensor, 4>;

/// Splits [B, T, heads * D] into [B, heads, T, D]. Returns null after an error.
Tensor splitHeads(Tensor value, int64_t heads);
/// Joins [B, heads, T, D] to [B, T, heads * D].
Tensor joinHeads(Tensor value);
/// Returns truth values for the keys that position t + offset sees, beside those of `seen`, which
/// may be null: [T, S], or with `ends`, numbers to add to t, [B, 1, T, S]. Null if it sees all, or
/// after an error.
Tensor seenPositions(Node &node, const Attend &form, Tensor seen = {}, Tensor ends = {});
/// Adds dimensions of 1 in front of a mask of at most 4. Null for null.
Tensor rank4(Tensor value);
/// Returns a and b, either of which may be null.
Tensor bothSeen(Tensor a, Tensor b);
/// Returns the numbers from `first` on as i64: [size, 1] or [1, size].
Tensor positionRange(Node &node, int64_t first, int64_t size, bool column);
/// Returns whether each of `keys` positions is before the end of its sequence, from B lengths:
/// [B, 1, 1, keys].
Tensor withinLengths(Tensor lengths, int64_t keys);

/// Builds an attention of operands that fit, by `mask`, which is added, or by `form.seen`. With
/// `skipsHidden` rows that see nothing are 0. `lse` is the element type of result 1.
mlir::Operation *buildAttention(Node &node, const Attend &form, Tensor mask, bool skipsHidden,
                                bool causal, mlir::Type lse);
/// Whether the types of queries, keys and values fit.
bool fit(const Attend &form);
/// Whether a mask broadcasts to the scores of operands that fit.
bool broadcasts(const Attend &form, Tensor mask);
/// Checks the types and builds the attention: [B, H, T, E]. If `scores` is given, they are built
/// one by one. Rows that see nothing are 0. Returns null after an error.
Tensor attend(Node &node, Attend form, AttendScores *scores = nullptr);

/// Rotates the first R elements of each position of the input, [B, H, T, D], by rows of cosines and
/// sines, [B or 1, T, R / 2]; the others stay. Pairs are neighbours if they are `interleaved`, else
/// halves. Returns null after an error.
Tensor rotate(Tensor input, Tensor cosines, Tensor sines, bool interleaved);
/// Returns the rows [B or 1, T, R / 2] of a table at positions [B, T], or the first T rows
/// without positions. Returns null after an error.
Tensor rotaryRows(Tensor table, Tensor positions, int64_t length);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_OPS_ATTEND_H
