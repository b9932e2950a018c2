//===- AttentionSizes.cpp - Sizes of attention, from its types ------------===//
#include "dialects/nn/AttentionSizes.h"
#include "dialects/nn/NN.h"
#include <array>

using namespace mlir;
using namespace shale::nn;

AttentionSizes AttentionSizes::get(ShapedType query, ShapedType key, ShapedType value,
                                   HeadOrder order) {
  unsigned head = order == HeadOrder::HeadsFirst ? 1 : 2, position = 3 - head;
  ArrayRef<int64_t> q = query.getShape(), k = key.getShape();
  return {q[0], q[head], k[head], q[position], k[position], q[3], value.getShape()[3]};
}

/// The types of query, key and value whose heads follow one another in a tensor of rank 4, where
/// `heads` are the query's.
static std::array<ShapedType, 3> unpack(ShapedType packed, int64_t heads) {
  ArrayRef<int64_t> shape = packed.getShape();
  auto part = [&](int64_t count) {
    return packed.clone(ArrayRef<int64_t>{shape[0], shape[1], count, shape[3]});
  };
  int64_t keyHeads = (shape[2] - heads) / 2;
  return {part(heads), part(keyHeads), part(keyHeads)};
}

AttentionSizes AttentionSizes::get(TypeRange inputs, ShapedType result) {
  if (inputs.size() == 1) {
    auto [query, key, value] = unpack(cast<ShapedType>(inputs[0]), result.getShape()[2]);
    return get(query, key, value, HeadOrder::PositionsFirst);
  }
  return get(cast<ShapedType>(inputs[0]), cast<ShapedType>(inputs[1]), cast<ShapedType>(inputs[2]),
             HeadOrder::PositionsFirst);
}

ShapedType AttentionSizes::packedType(ShapedType like) const {
  return like.clone(ArrayRef<int64_t>{batch, length, heads + 2 * keyHeads, depth});
}

int64_t AttentionSizes::getFlops(bool causal, std::optional<int64_t> window) const {
  auto of = [&](int64_t keys) { return 2 * batch * heads * length * keys * (depth + valueDepth); };
  int64_t flops = causal ? of(keyLength) / 2 : of(keyLength);
  if (!window || *window >= keyLength)
    return flops;
  return std::min(flops, of(causal ? *window : 2 * *window - 1));
}

std::optional<AttentionSizes> shale::nn::matchAttention(ShapedType query, ShapedType key,
                                                        ShapedType value, ShapedType result,
                                                        ShapedType lse, HeadOrder order) {
  if (query.getRank() != 4 || key.getRank() != 4 || value.getRank() != 4)
    return std::nullopt;
  AttentionSizes s = AttentionSizes::get(query, key, value, order);
  Type element = query.getElementType(), summed = lse.getElementType();
  auto isOf = [&](ShapedType type, int64_t heads, int64_t positions, int64_t features) {
    bool headsFirst = order == HeadOrder::HeadsFirst;
    int64_t shape[] = {s.batch, headsFirst ? heads : positions, headsFirst ? positions : heads,
                       features};
    return type.getShape() == ArrayRef<int64_t>(shape) && type.getElementType() == element;
  };
  int64_t rows[] = {s.batch, s.heads, s.length};
  bool fits = isOf(key, s.keyHeads, s.keyLength, s.depth) &&
              isOf(value, s.keyHeads, s.keyLength, s.valueDepth) &&
              isOf(result, s.heads, s.length, s.valueDepth) &&
              lse.getShape() == ArrayRef<int64_t>(rows) &&
              (summed == element || summed == accumulatorType(element));
  return fits ? std::optional(s) : std::nullopt;
}

std::optional<AttentionSizes> shale::nn::matchAttention(TypeRange inputs, ShapedType result,
                                                        ShapedType lse) {
  if (inputs.size() == 3)
    return matchAttention(cast<ShapedType>(inputs[0]), cast<ShapedType>(inputs[1]),
                          cast<ShapedType>(inputs[2]), result, lse, HeadOrder::PositionsFirst);
  if (inputs.size() != 1 || result.getRank() != 4)
    return std::nullopt;
  auto packed = cast<ShapedType>(inputs[0]);
  int64_t heads = result.getDimSize(2);
  if (packed.getRank() != 4 || packed.getDimSize(2) < heads ||
      (packed.getDimSize(2) - heads) % 2 != 0)
    return std::nullopt;
  auto [query, key, value] = unpack(packed, heads);
  return matchAttention(query, key, value, result, lse, HeadOrder::PositionsFirst);
}

bool shale::nn::matchAttentionGradients(TypeRange gradients, const AttentionSizes &s,
                                        ShapedType like) {
  if (gradients.size() == 1)
    return s.canPack() && gradients[0] == s.packedType(like);
  auto type = [&](int64_t length, int64_t heads, int64_t depth) -> Type {
    return like.clone(ArrayRef<int64_t>{s.batch, length, heads, depth});
  };
  return gradients == TypeRange{type(s.length, s.heads, s.depth),
                                type(s.keyLength, s.keyHeads, s.depth),
                                type(s.keyLength, s.keyHeads, s.valueDepth)};
}
