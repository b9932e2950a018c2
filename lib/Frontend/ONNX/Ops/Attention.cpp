//===- Attention.cpp - Attention and RotaryEmbedding ----------------------===//
#include "dialects/nn/Ops/Attention.h"
#include "dialects/nn/Ops/Compare.h"
#include "lib/Frontend/ONNX/Ops/Attend.h"
#include <limits>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Appends new keys or values [B, G, S, D] to those of earlier positions.
static Value withPast(Node &node, Value past, Value value) {
  if (!past || !value)
    return value;
  auto before = Node::type(past), now = Node::type(value);
  if (before.getRank() != 4 ||
      before != now.clone(withSize(now.getShape(), 2, before.getDimSize(2))))
    return node.error("past {} does not fit {}", before, now);
  return node.joined({past, value}, 2);
}

/// Extends a mask of fewer keys; the others are hidden. Operator set 23 broadcasts one key instead.
static Value paddedMask(Node &node, Value mask, int64_t keys) {
  auto type = Node::type(mask);
  int64_t rank = type.getRank();
  if (rank == 0 || type.getDimSize(rank - 1) >= keys)
    return mask;
  if (node.version < 24) {
    if (type.getDimSize(rank - 1) == 1)
      return mask;
    return node.error("the mask {} is for fewer than the {} keys, which operator set 24 allows: "
                      "this file uses {}",
                      type, keys, node.version);
  }
  Sizes high = withSize(Sizes(rank, 0), rank - 1, keys - type.getDimSize(rank - 1));
  bool truth = type.getElementType().isInteger(1);
  return node.padded(mask, Sizes(rank, 0), high, {},
                     truth ? 0 : -std::numeric_limits<double>::infinity());
}

/// Reads the operands of Attention; 3-D ones are split into heads.
static LogicalResult readOperands(Node &node, Attend &form, bool &joined) {
  joined = Node::type(node.input(0)).getRank() == 3;
  Value *into[] = {&form.query, &form.key, &form.value};
  for (int i = 0; i < 3; ++i) {
    *into[i] = node.input(i);
    int64_t heads = node.intAttr(i ? "kv_num_heads" : "q_num_heads", 0);
    int64_t rank = Node::type(node.input(i)).getRank();
    if (rank != (joined ? 3 : 4))
      return node.error("query, key and value must all have 3 or all have 4 dimensions");
    if (joined)
      *into[i] = splitHeads(node, node.input(i), heads);
    if (!*into[i])
      return failure();
    int64_t found = Node::type(*into[i]).getDimSize(1);
    if (heads != 0 && heads != found)
      return node.error("operand {} has {} heads, not {}", i, found, heads);
  }
  return success();
}

/// The lengths of the sequences in the cache hide keys; with `is_causal` the last query is at the
/// last of them.
static LogicalResult applyLengths(Node &node, Attend &form) {
  Value lengths = node.input(6);
  if (!lengths)
    return success();
  auto type = Node::type(lengths);
  int64_t batch = Node::type(form.query).getDimSize(0);
  if (node.has(4) || type.getShape() != ArrayRef<int64_t>{batch} ||
      !type.getElementType().isInteger(64))
    return node.error("nonpad_kv_seqlen must have one integer for each of {} sequences, and there "
                      "must be no past_key",
                      batch);
  int64_t keys = Node::type(form.key).getDimSize(2), queries = Node::type(form.query).getDimSize(2);
  form.seen = bothSeen(node, form.seen, withinLengths(node, lengths, keys));
  // Query t has number t + length - queries.
  Value column = node.reshape(lengths, {batch, 1, 1, 1});
  auto limit = [&](int64_t by, nn::Predicate predicate) {
    Value own = node.add(positionRange(node, by - queries, queries, /*column=*/true), column);
    Value places = positionRange(node, 0, keys, /*column=*/false);
    form.seen = bothSeen(node, form.seen, node.binary(places, own, predicate));
  };
  if (form.causal)
    limit(0, nn::Predicate::LE);
  if (form.before >= 0)
    limit(-form.before, nn::Predicate::GE);
  if (form.after >= 0)
    limit(form.after, nn::Predicate::LE);
  form.causal = false;
  form.before = form.after = -1;
  return form.seen ? success() : failure();
}

static LogicalResult readMask(Node &node, Attend &form) {
  Value mask = node.input(3);
  if (!mask)
    return success();
  mask = paddedMask(node, mask, Node::type(form.key).getDimSize(2));
  if (!mask)
    return failure();
  Type element = Node::type(mask).getElementType();
  if (element.isInteger(1))
    form.seen = mask;
  else if (isa<FloatType>(element))
    form.added = node.cast(mask, Node::type(form.query).getElementType());
  else
    return node.error("the mask must be of floats or truth values, not {}", element);
  return success();
}

/// Attention. The query block follows the past, and rows that see nothing are 0.
static LogicalResult importAttention(Node &node) {
  Attend form;
  bool joined;
  if (failed(readOperands(node, form, joined)))
    return failure();
  auto query = Node::type(form.query);
  if (bool(node.input(4)) != bool(node.input(5)))
    return node.error("past_key and past_value must be given together");
  if (Value past = node.input(4); past && Node::type(past).getRank() == 4)
    form.offset = Node::type(past).getDimSize(2);
  form.key = withPast(node, node.input(4), form.key);
  form.value = withPast(node, node.input(5), form.value);
  if (!form.key || !form.value)
    return failure();
  form.scale = node.floatAttr("scale", 1 / std::sqrt(double(query.getDimSize(3))));
  form.softcap = node.floatAttr("softcap", 0);
  form.causal = node.flagAttr("is_causal", false);
  form.before = node.intAttr("left_window_size", -1);
  form.after = node.intAttr("right_window_size", -1);
  int64_t mode = node.intAttr("qk_matmul_output_mode", 0);
  if (form.before < -1 || form.after < -1 || mode < 0 || mode > 3)
    return node.error("a window size is below -1, or qk_matmul_output_mode is not from 0 to 3");
  // A window as large as the sequences hides nothing.
  int64_t all = query.getDimSize(2) + Node::type(form.key).getDimSize(2);
  for (int64_t *window : {&form.before, &form.after})
    if (*window >= all)
      *window = -1;
  if (failed(readMask(node, form)) || failed(applyLengths(node, form)))
    return failure();
  AttendScores scores;
  Value result = attend(node, form, node.wants(3) ? &scores : nullptr);
  if (!result)
    return failure();
  node.set(0, joined ? joinHeads(node, result) : result);
  node.set(1, form.key);
  node.set(2, form.value);
  Value modes[] = {scores.product, scores.capped, scores.masked, scores.weights};
  if (node.wants(3))
    node.set(3, modes[mode]);
  return success();
}

/// RotaryEmbedding of ONNX: (input, cosines, sines, positions); that of com.microsoft: (input,
/// positions, cosines, sines).
template <bool isMicrosoft> static Value importRotary(Node &node) {
  auto type = Node::type(node.input(0));
  int64_t heads = node.intAttr("num_heads", 0), rank = type.getRank();
  Value cosines = node.input(isMicrosoft ? 2 : 1), sines = node.input(isMicrosoft ? 3 : 2);
  Value positions = node.input(isMicrosoft ? 1 : 3);
  int64_t turned = node.intAttr("rotary_embedding_dim", 0);
  if (rank != 3 && rank != 4)
    return node.error("the operand must have 3 or 4 dimensions; it is {}", type);
  if (isMicrosoft && heads == 0 && rank == 3 && Node::type(cosines).getRank() == 2) {
    int64_t size = 2 * Node::type(cosines).getDimSize(1); // of a head
    if (turned != 0 || size < 1 || type.getDimSize(2) % size != 0)
      return node.error("needs the attribute num_heads");
    heads = type.getDimSize(2) / size;
  }
  if (node.flagAttr("is_packed_batching", false) || node.floatAttr("scale", 1) != 1)
    return node.error("packed batches and a scale are not supported");
  Rotation form;
  form.interleaved = node.flagAttr("interleaved", false);
  form.input = rank == 3 ? splitHeads(node, node.input(0), heads) : node.input(0);
  if (!form.input)
    return {};
  auto split = Node::type(form.input);
  int64_t batch = split.getDimSize(0), length = split.getDimSize(2);
  // One position is that of the first element of each sequence.
  if (isMicrosoft && Node::type(positions).getNumElements() == 1 &&
      Node::type(positions).getRank() == 1) {
    Value row = node.cast(positionRange(node, 0, length, /*column=*/false),
                          Node::type(positions).getElementType());
    positions = node.reshape(node.add(row, positions), {1, length});
  }
  if (positions) {
    ArrayRef<int64_t> shape = Node::type(positions).getShape();
    if (shape.size() != 2 || (shape[0] != 1 && shape[0] != batch) || shape[1] != length)
      return node.error("positions {} do not fit {} sequences of {}", positions, batch, length);
  }
  form.cosines = rotaryRows(node, cosines, positions, length);
  form.sines = form.cosines ? rotaryRows(node, sines, positions, length) : Value();
  if (!form.sines)
    return {};
  if (int64_t pairs = Node::type(form.cosines).getShape().back();
      turned != 0 && turned != 2 * pairs)
    return node.error("rotary_embedding_dim is {}, but the tables have {} pairs", turned, pairs);
  Value result = rotate(node, form);
  return rank == 3 ? joinHeads(node, result) : result;
}

void onnx::registerAttentionOps(HandlerRegistry &r) {
  r.add("", "Attention", 23, importAttention, needs(3));
  r.add("", "RotaryEmbedding", 23, importRotary<false>, needs(3));
  r.add("com.microsoft", "RotaryEmbedding", 1, importRotary<true>, needs(4));
}
