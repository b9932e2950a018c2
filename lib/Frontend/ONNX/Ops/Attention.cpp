//===- Attention.cpp - Attention and rotary positions ---------------------===//
#include "lib/Frontend/ONNX/Ops/Attend.h"
#include <cmath>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Appends new keys or values [B, G, S, D] to those of earlier positions.
static Tensor withPast(Tensor past, Tensor value) {
  if (!past || !value)
    return value;
  if (past.rank() != 4 ||
      past.type() != value.type().clone(withSize(value.shape(), 2, past.dim(2))))
    return value.node().error("past {} does not fit {}", past, value);
  return joined({past, value}, 2);
}

/// Extends a mask of fewer keys; the others are hidden. Operator set 23 broadcasts one key instead.
static Tensor paddedMask(Node &node, Tensor mask, int64_t keys) {
  int64_t rank = mask.rank(), own = mask.dim(-1);
  if (rank == 0 || own >= keys || (node.version < 24 && own == 1))
    return mask;
  if (node.version < 24)
    return node.error("the mask {} is for fewer than the {} keys, which operator set 24 allows: "
                      "this file uses {}",
                      mask, keys, node.version);
  return mask.padded(Sizes(rank, 0), withSize(Sizes(rank, 0), rank - 1, keys - own), {},
                     mask.hasTruths() ? 0 : -HUGE_VAL);
}

/// The lengths of the sequences in the cache hide keys; with `is_causal` the last query is at the
/// last of them.
static void applyLengths(Node &node, Attend &form) {
  Tensor lengths = node.input(6);
  if (!lengths)
    return;
  int64_t batch = form.query.dim(0);
  if (node.has(4) || lengths.shape() != ArrayRef<int64_t>{batch} ||
      !lengths.element().isInteger(64))
    return (void)node.error("nonpad_kv_seqlen must have one integer for each of {} sequences, and "
                            "there must be no past_key",
                            batch);
  form.seen = bothSeen(form.seen, withinLengths(lengths, form.key.dim(2)));
  form.offset = -form.query.dim(2); // query t has number t + length - queries
  form.seen = seenPositions(node, form, form.seen, lengths.reshape({batch, 1, 1, 1}));
  form.offset = 0;
  form.causal = false;
  form.before = form.after = -1;
}

static void readMask(Node &node, Attend &form) {
  Tensor mask = node.input(3) ? paddedMask(node, node.input(3), form.key.dim(2)) : Tensor();
  if (!mask)
    return;
  if (mask.hasTruths())
    form.seen = mask;
  else if (mask.hasFloats())
    form.added = mask.cast(form.query.element());
  else
    (void)node.error("the mask must be of floats or truth values, not {}", mask.element());
}

/// Attention. The query block follows the past, and rows that see nothing are 0.
static LogicalResult importAttention(Node &node) {
  Attend form;
  bool joined = node.input(0).rank() == 3; // operands are split into heads
  Tensor *into[] = {&form.query, &form.key, &form.value};
  for (int i = 0; i < 3; ++i) {
    int64_t heads = node.intAttr(i ? "kv_num_heads" : "q_num_heads", 0);
    if (node.input(i).rank() != (joined ? 3 : 4))
      return node.error("query, key and value must all have 3 or all have 4 dimensions");
    *into[i] = joined ? splitHeads(node.input(i), heads) : node.input(i);
    if (int64_t found = into[i]->dim(1); heads != 0 && heads != found)
      return node.error("operand {} has {} heads, not {}", i, found, heads);
  }
  if (bool(node.input(4)) != bool(node.input(5)))
    return node.error("past_key and past_value must be given together");
  if (Tensor past = node.input(4); past && past.rank() == 4)
    form.offset = past.dim(2);
  form.key = withPast(node.input(4), form.key);
  form.value = withPast(node.input(5), form.value);
  form.scale = node.floatAttr("scale", 1 / std::sqrt(double(form.query.dim(3))));
  form.softcap = node.floatAttr("softcap", 0);
  form.causal = node.flagAttr("is_causal", false);
  form.before = node.intAttr("left_window_size", -1);
  form.after = node.intAttr("right_window_size", -1);
  int64_t mode = node.intAttr("qk_matmul_output_mode", 0);
  if (form.before < -1 || form.after < -1 || mode < 0 || mode > 3)
    return node.error("a window size is below -1, or qk_matmul_output_mode is not from 0 to 3");
  // A window as large as the sequences hides nothing.
  int64_t all = form.query.dim(2) + form.key.dim(2);
  for (int64_t *window : {&form.before, &form.after})
    if (*window >= all)
      *window = -1;
  if (!form.query || !form.key)
    return failure();
  readMask(node, form);
  applyLengths(node, form);
  AttendScores scores;
  Tensor result = attend(node, form, node.wants(3) ? &scores : nullptr);
  if (!result)
    return failure();
  node.set(0, joined ? joinHeads(result) : result);
  node.set(1, form.key);
  node.set(2, form.value);
  if (node.wants(3))
    node.set(3, scores[mode]);
  return success();
}

/// RotaryEmbedding of ONNX: (input, cosines, sines, positions); that of com.microsoft: (input,
/// positions, cosines, sines).
template <bool isMicrosoft> static Tensor importRotary(Node &node, Tensor x) {
  int64_t heads = node.intAttr("num_heads", 0), rank = x.rank();
  Tensor cosines = node.input(isMicrosoft ? 2 : 1), sines = node.input(isMicrosoft ? 3 : 2);
  Tensor positions = node.input(isMicrosoft ? 1 : 3);
  int64_t turned = node.intAttr("rotary_embedding_dim", 0);
  if (rank != 3 && rank != 4)
    return node.error("the operand must have 3 or 4 dimensions; it is {}", x);
  if (isMicrosoft && heads == 0 && rank == 3 && cosines.rank() == 2) {
    int64_t size = 2 * cosines.dim(1); // of a head
    if (turned != 0 || size < 1 || x.dim(2) % size != 0)
      return node.error("needs the attribute num_heads");
    heads = x.dim(2) / size;
  }
  if (node.flagAttr("is_packed_batching", false) || node.floatAttr("scale", 1) != 1)
    return node.error("packed batches and a scale are not supported");
  bool interleaved = node.flagAttr("interleaved", false);
  x = rank == 3 ? splitHeads(x, heads) : x;
  if (!x)
    return {};
  int64_t batch = x.dim(0), length = x.dim(2);
  // One position is that of the first element of each sequence.
  if (isMicrosoft && positions.count() == 1 && positions.rank() == 1) {
    Tensor row = positionRange(node, 0, length, /*column=*/false).cast(positions.element());
    positions = (row + positions).reshape({1, length});
  }
  if (positions && (positions.rank() != 2 || positions.dim(1) != length ||
                    (positions.dim(0) != 1 && positions.dim(0) != batch)))
    return node.error("positions {} do not fit {} sequences of {}", positions, batch, length);
  cosines = rotaryRows(cosines, positions, length);
  sines = rotaryRows(sines, positions, length);
  if (int64_t pairs = cosines.dim(-1); turned != 0 && turned != 2 * pairs)
    return node.error("rotary_embedding_dim is {}, but the tables have {} pairs", turned, pairs);
  Tensor result = rotate(x, cosines, sines, interleaved);
  return rank == 3 ? joinHeads(result) : result;
}

// ONNX Runtime's optimizer writes the operators of com.microsoft. Training has no cache: their
// operands of earlier positions are rejected, as are the corresponding results.

/// Fails if one of the operands is there, or one of the results is read; `what` names it.
static void refuse(Node &node, ArrayRef<int> operands, ArrayRef<int> results, StringRef what) {
  if (llvm::any_of(operands, [&](int i) { return node.has(i); }) ||
      llvm::any_of(results, [&](int i) { return node.isRead(i); }))
    (void)node.error(what + " are not supported: export the model without a cache");
}

/// Reads a mask of integers: lengths [B], keys [B, S] or pairs of positions [B, T, S].
static void readKeyMask(Node &node, Tensor mask, Attend &form) {
  if (!mask)
    return;
  int64_t batch = form.query.dim(0), length = form.query.dim(2), keys = form.key.dim(2);
  ArrayRef<int64_t> shape = mask.shape();
  bool isOfPairs = shape == ArrayRef<int64_t>{batch, length, keys};
  if (!mask.element().isSignlessInteger() || mask.hasTruths())
    return (void)node.error("the mask must be of integers, not {}", mask);
  if (shape == ArrayRef<int64_t>{batch})
    form.seen = withinLengths(mask, keys);
  else if (isOfPairs || shape == ArrayRef<int64_t>{batch, keys})
    form.seen = differ(mask.reshape({batch, 1, isOfPairs ? length : 1, keys}), 0);
  else
    return (void)node.error("a mask {} is not supported; those of [batch], [batch, keys] and "
                            "[batch, queries, keys] are",
                            mask);
  form.hidden = node.floatAttr("mask_filter_value", -10000);
  if (!std::isfinite(*form.hidden))
    form.hidden.reset();
}

/// Reads the scale, which is 1 / sqrt(D) if the attribute is absent or 0, and builds the attention
/// of heads. A causal one ends at the last key.
static Tensor finished(Node &node, Attend form, Tensor mask) {
  if (node.hasFailed())
    return {};
  form.scale = node.floatAttr("scale", 0);
  if (form.scale == 0)
    form.scale = 1 / std::sqrt(double(form.query.dim(3)));
  if (form.causal)
    form.offset = form.key.dim(2) - form.query.dim(2);
  readKeyMask(node, mask, form);
  return joinHeads(attend(node, form));
}

/// Returns the first `q`, the next `k` and the other columns of the last dimension; null for null.
static std::array<Tensor, 3> columns(Tensor value, int64_t q, int64_t k) {
  int64_t dim = value.rank() - 1, end = value.dim(dim);
  return {value.part(dim, 0, q), value.part(dim, q, q + k), value.part(dim, q + k, end)};
}

/// Attention: the matmuls with a packed weight [I, Q + K + V], then attention of the heads.
static Tensor importPackedAttention(Node &node, Tensor x, Tensor weight, Tensor bias) {
  refuse(node, {4, 6}, {1}, "operands or results of earlier positions");
  if (node.flagAttr("do_rotary", false))
    return node.error("do_rotary is not supported");
  int64_t heads = node.intAttr("num_heads", 0);
  if (x.rank() != 3 || weight.rank() != 2 || weight.dim(0) != x.dim(2))
    return node.error("input {} and weight {} do not fit: [batch, positions, features] and "
                      "[features, results]",
                      x, weight);
  int64_t width = weight.dim(1), batch = x.dim(0), length = x.dim(1);
  Sizes sizes = node.intsAttr("qkv_hidden_sizes").value_or(Sizes(3, width / 3));
  if (sizes.size() != 3 ||
      llvm::any_of(sizes, [&](int64_t size) { return size < 1 || size > width; }) ||
      sizes[0] + sizes[1] + sizes[2] != width)
    return node.error("the weight has {} results, which are not those of queries, keys and values",
                      width);
  Tensor all =
      matmul(x.reshape({batch * length, x.dim(2)}), weight).reshape({batch, length, width});
  if (bias && bias.shape() != ArrayRef<int64_t>{width})
    return node.error("the bias is {} for {} results", bias, width);
  if (bias)
    all = all + bias;
  auto [query, key, value] = columns(all, sizes[0], sizes[1]);
  Attend form{splitHeads(query, heads), splitHeads(key, heads), splitHeads(value, heads)};
  form.causal = node.flagAttr("unidirectional", false);
  form.added = node.input(5);
  return finished(node, form, node.input(3));
}

/// Returns part `number` of [B, T, H, parts, D] as [B, H, T, D].
static Tensor packedPart(Tensor value, int64_t number) {
  return value.part(3, number, number + 1).squeeze(3).transpose({0, 2, 1, 3});
}

/// Splits a value with its bias into heads; a value that is split already has no bias.
static Tensor headsOf(Tensor value, Tensor bias, int64_t heads) {
  if (!value || value.rank() == 4)
    return value;
  return splitHeads(bias ? value + bias : value, heads);
}

/// MultiHeadAttention: queries, keys and values are operands, or packed in one.
static Tensor importMultiHead(Node &node, Tensor query, Tensor key, Tensor value, Tensor bias) {
  refuse(node, {6, 7, 8, 9}, {1, 2, 3}, "operands or results of earlier positions, and scores,");
  int64_t heads = node.intAttr("num_heads", 0);
  Attend form;
  if (!key || (!value && key.rank() == 5)) {
    Tensor packed = key ? key : query;
    int64_t parts = key ? 2 : 3;
    if (bias || value || packed.rank() != 5 || packed.dim(2) != heads || packed.dim(3) != parts)
      return node.error(
          "packed operands must be [batch, positions, heads, 2 or 3, features], without a bias");
    form.query = key ? headsOf(query, {}, heads) : packedPart(query, 0);
    form.key = packedPart(packed, parts - 2);
    form.value = packedPart(packed, parts - 1);
  } else {
    if (failed(node.require(3)) || query.rank() != 3)
      return node.error("queries must be [batch, positions, features], with keys and values");
    for (Tensor operand : {key, value})
      if (int64_t rank = operand.rank(); rank != 3 && rank != 4)
        return node.error("keys and values must have 3 or 4 dimensions, not {}", rank);
    if (bias && (key.rank() != 3 || value.rank() != 3))
      return node.error("a bias of keys that are split into heads is not supported");
    int64_t q = query.dim(-1), k = key.dim(-1), v = value.dim(-1);
    if (bias && bias.shape() != ArrayRef<int64_t>{q + k + v})
      return node.error("the bias is {} for {} features", bias, q + k + v);
    auto [ofQuery, ofKey, ofValue] = columns(bias, q, k);
    form.query = headsOf(query, ofQuery, heads);
    form.key = headsOf(key, ofKey, heads);
    form.value = headsOf(value, ofValue, heads);
  }
  form.causal = node.flagAttr("unidirectional", false);
  form.added = node.input(5);
  return finished(node, form, node.input(4));
}

/// Rotates queries and keys by tables of cosines and sines.
static void rotateBoth(Node &node, Attend &form) {
  if (!node.input(7) || !node.input(8))
    return (void)node.error("do_rotary needs the operands cos_cache and sin_cache");
  int64_t length = form.query.dim(2);
  bool interleaved = node.flagAttr("rotary_interleaved", false);
  Tensor cosines = rotaryRows(node.input(7), node.input(9), length);
  Tensor sines = rotaryRows(node.input(8), node.input(9), length);
  for (Tensor *each : {&form.query, &form.key})
    *each = rotate(*each, cosines, sines, interleaved);
}

/// GroupQueryAttention of a whole sequence. It is causal, so only padding attends to the padding at
/// the end, whose length `seqlens_k` gives.
static Tensor importGroupQuery(Node &node, Tensor query, Tensor key, Tensor value) {
  for (int i : {3, 4})
    if (Tensor past = node.input(i); past && (past.rank() != 4 || past.dim(2) != 0))
      return node.error(
          "keys and values of earlier positions are not supported: export the model without a cache");
  refuse(node, {11, 12, 13}, {1, 2, 3}, "sinks, scales and results of earlier positions");
  int64_t heads = node.intAttr("num_heads", 0), groups = node.intAttr("kv_num_heads", 0);
  if (heads < 1 || groups < 1 || heads % groups != 0)
    return node.error("{} heads of queries and {} of keys do not fit", heads, groups);
  if (node.intAttr("smooth_softmax", 0) > 0)
    return node.error("smooth_softmax is not supported");
  if (!key != !value || query.rank() != 3)
    return node.error("needs queries [batch, positions, features], and keys and values or neither");
  if (!key) {
    int64_t width = query.dim(2), all = heads + 2 * groups;
    if (width % all != 0)
      return node.error("cannot split {} into {} heads", query, all);
    std::array<Tensor, 3> parts = columns(query, width / all * heads, width / all * groups);
    query = parts[0], key = parts[1], value = parts[2];
  }
  Attend form{splitHeads(query, heads), splitHeads(key, groups), splitHeads(value, groups)};
  if (node.hasFailed())
    return {};
  if (form.query.dim(2) != form.key.dim(2))
    return node.error("queries and keys have {} and {} positions", form.query.dim(2),
                      form.key.dim(2));
  if (node.flagAttr("do_rotary", false))
    rotateBoth(node, form);
  form.causal = true;
  int64_t window = node.intAttr("local_window_size", -1);
  if (window == 0)
    return node.error("local_window_size must be -1 or positive");
  if (window > 0)
    form.before = window - 1; // its own key counts
  form.softcap = node.floatAttr("softcap", 0);
  form.added = node.input(10);
  return finished(node, form, Tensor());
}

void onnx::registerAttentionOps(HandlerRegistry &r) {
  r.add("", "Attention", 23, importAttention, needs(3));
  r.add("", "RotaryEmbedding", 23, importRotary<false>, needs(3));
  r.add("com.microsoft", "RotaryEmbedding", 1, importRotary<true>, needs(4));
  r.add("com.microsoft", "Attention", 1, importPackedAttention, needs(2));
  r.add("com.microsoft", "MultiHeadAttention", 1, importMultiHead, needs(1));
  r.add("com.microsoft", "GroupQueryAttention", 1, importGroupQuery, needs(1));
}
