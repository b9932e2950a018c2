//===- Attend.h - Attention that several operators build ------------------===//
#ifndef SHALE_FRONTEND_ONNX_OPS_ATTEND_H
#define SHALE_FRONTEND_ONNX_OPS_ATTEND_H

#include "lib/Frontend/ONNX/Ops/Ops.h"

namespace shale::onnx {

/// The operands of an attention operator. B is the batch, H and G are the heads of queries and of
/// keys, T and S their positions.
struct Attend {
  mlir::Value query, key, value; // [B, H, T, D], [B, G, S, D], [B, G, S, E]
  /// Added to the scores, if given; broadcast to [B, H, T, S].
  mlir::Value added = {};
  /// Truth values: a score is hidden where it is false. Broadcast to [B, H, T, S].
  mlir::Value seen = {};
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

/// Scores, [B, H, T, S], after each step.
struct AttendScores {
  mlir::Value product, capped, masked, weights;
};

/// Splits [B, T, heads * D] into [B, heads, T, D]. Returns null after an error.
mlir::Value splitHeads(Node &node, mlir::Value value, int64_t heads);
/// Joins [B, heads, T, D] to [B, T, heads * D].
mlir::Value joinHeads(Node &node, mlir::Value value);
/// Returns what a value is before it is reshaped; null for null.
mlir::Value withoutReshape(mlir::Value value);
/// Returns truth values for the keys that position t + offset sees, beside those of `seen`, which
/// may be null: [T, S], or with `ends`, numbers to add to t, [B, 1, T, S]. Null if it sees all, or
/// after an error.
mlir::Value seenPositions(Node &node, const Attend &form, mlir::Value seen = {},
                          mlir::Value ends = {});
/// Adds dimensions of 1 in front of a mask of at most 4.
mlir::Value rank4(Node &node, mlir::Value value);
/// Returns a and b, either of which may be null.
mlir::Value bothSeen(Node &node, mlir::Value a, mlir::Value b);
/// Returns the numbers from `first` on as i64: [size, 1] or [1, size].
mlir::Value positionRange(Node &node, int64_t first, int64_t size, bool column);
/// Returns whether each of `keys` positions is before the end of its sequence, from B lengths:
/// [B, 1, 1, keys].
mlir::Value withinLengths(Node &node, mlir::Value lengths, int64_t keys);

/// Whether the types of queries, keys and values fit.
bool fit(const Attend &form);
/// Whether a mask broadcasts to the scores of operands that fit.
bool broadcasts(const Attend &form, mlir::Value mask);
/// Checks the types and builds the attention: [B, H, T, E]. If `scores` is given, they are built
/// one by one. Rows that see nothing are 0. Returns null after an error.
mlir::Value attend(Node &node, Attend form, AttendScores *scores = nullptr);

/// Rotary positions of one operand.
struct Rotation {
  mlir::Value input;          // [B, H, T, D]
  mlir::Value cosines, sines; // [B or 1, T, R / 2]
  bool interleaved = false;   // pairs are neighbours, not halves
};

/// Rotates the first R elements of each position; the others stay. Returns null after an error.
mlir::Value rotate(Node &node, const Rotation &form);
/// Returns the rows [B or 1, T, R / 2] of a table at positions [B, T], or the first T rows
/// without positions. Returns null after an error.
mlir::Value rotaryRows(Node &node, mlir::Value table, mlir::Value positions, int64_t length);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_OPS_ATTEND_H
