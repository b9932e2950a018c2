//===- Attention.cpp - Attention and rotary positions ---------------------===//
#include "dialects/nn/Ops/Attention.h"
#include "dialects/nn/AttentionSizes.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace mlir;
using namespace shale::nn;

/// Checks the `dropout` attribute and the random operands.
static LogicalResult verifyDropped(Operation *op, Value query, Value key, DropAttr dropout,
                                   OperandRange random) {
  if (!dropout)
    return random.empty() ? success()
                          : op->emitOpError("has random operands but no dropout"); // attention_c5
  double ratio = dropout.getRatio().getValueAsDouble();
  if (!(ratio >= 0 && ratio < 1) || dropout.getId() < 0 ||
      dropout.getId() > UINT32_MAX) // attention_c5
    return op->emitOpError() << "dropout needs a ratio in [0, 1) and an id in [0, 2^32); got "
                             << ratio << " and " << dropout.getId();
  ArrayRef<int64_t> whole = dropout.getWhole();
  if (random.size() != (whole.empty() ? 3 : 4)) // attention_c5
    return op->emitOpError()
           << "dropout needs the random operands seed, step and micro-batch, and an offset if it has `of`; got "
           << random.size() << " random operands";
  auto q = cast<RankedTensorType>(query.getType()), k = cast<RankedTensorType>(key.getType());
  int64_t groups = k.getDimSize(1),
          local[] = {q.getDimSize(0), groups, groups ? q.getDimSize(1) / groups : 0,
                     q.getDimSize(2), k.getDimSize(2)};
  ArrayRef<int64_t> sizes = whole.empty() ? ArrayRef<int64_t>(local) : whole;
  bool fits = sizes.size() == 5;
  for (unsigned i = 0; fits && i < 5; ++i)
    fits = i < 3 ? sizes[i] >= local[i] : sizes[i] == local[i];
  int64_t count = 1;
  for (int64_t size : sizes)
    if (fits && (llvm::MulOverflow(count, size, count) || count > (int64_t(1) << 48)))
      return op->emitOpError("the whole must have at most 2^48 probabilities"); // attention_c5
  if (!fits)                                                                    // attention_c5
    return op->emitOpError(
        "the whole must be [B, G, R, T, S] with no dimension smaller than in the local type");
  return success();
}

/// Checks `hidden` and `added`, which change the scores of keys that are not seen.
static LogicalResult verifyHidden(Operation *op, Value seen, std::optional<APFloat> hidden,
                                  bool added) {
  double number = hidden ? hidden->convertToDouble() : -std::numeric_limits<double>::infinity();
  if ((hidden && !seen) || std::isnan(number) || (std::isinf(number) && number > 0)) // attention_c6
    return op->emitOpError() << "'hidden' requires 'seen' and must be finite or -inf; got "
                             << number;
  if (added && !std::isfinite(number)) // attention_c6
    return op->emitOpError() << "'added' requires a finite 'hidden'; got " << number;
  return success();
}

/// Checks the types and attributes that attention and its gradient share.
static LogicalResult verifyAttention(Operation *op, Value query, Value key, Value value, Value mask,
                                     Value seen, Type result, Type lse,
                                     std::optional<int64_t> window, double scale) {
  auto q = cast<RankedTensorType>(query.getType());
  auto k = cast<RankedTensorType>(key.getType());
  auto v = cast<RankedTensorType>(value.getType());
  std::optional<AttentionSizes> sizes = matchAttention(
      q, k, v, cast<ShapedType>(result), cast<ShapedType>(lse), HeadOrder::HeadsFirst);
  if (!sizes) // attention_c1
    return op->emitOpError()
           << "expects query [B, H, T, D], key [B, G, S, D], value [B, G, S, E], result "
              "[B, H, T, E] and lse [B, H, T] of one element type; got "
           << q << ", " << k << ", " << v << ", " << result << " and " << lse;
  if (!sizes->sharesHeads()) // attention_c2
    return op->emitOpError() << "query heads must be a positive multiple of key heads; got "
                             << sizes->heads << " and " << sizes->keyHeads;
  int64_t whole[] = {sizes->batch, sizes->heads, sizes->length, sizes->keyLength};
  for (Value each : {mask, seen}) { // attention_c3
    if (!each)
      continue;
    auto m = cast<RankedTensorType>(each.getType());
    bool fits = m.getRank() == 4;
    for (int64_t i = 0; fits && i < 4; ++i)
      fits = m.getDimSize(i) == 1 || m.getDimSize(i) == whole[i];
    if (!fits)
      return op->emitOpError() << (each == seen ? "seen" : "mask") << " must broadcast to ["
                               << whole[0] << ", " << whole[1] << ", " << whole[2] << ", "
                               << whole[3] << "]; got " << m;
  }
  if (!std::isfinite(scale)) // attention_c4
    return op->emitOpError() << "scale must be finite; got " << scale;
  if (window && *window < 1) // attention_c7
    return op->emitOpError() << "window must be positive; got " << *window;
  return success();
}

/// Returns the operations of a forward pass.
static int64_t attentionFlops(Value query, Value key, Value value, bool causal,
                              std::optional<int64_t> window) {
  return AttentionSizes::get(cast<ShapedType>(query.getType()), cast<ShapedType>(key.getType()),
                             cast<ShapedType>(value.getType()), HeadOrder::HeadsFirst)
      .getFlops(causal, window);
}

LogicalResult AttentionOp::verify() {
  if (failed(verifyAttention(*this, getQuery(), getKey(), getValue(), getMask(), getSeen(),
                             getResult().getType(), getLse().getType(), getWindow(),
                             getScale().convertToDouble())) ||
      failed(verifyHidden(*this, getSeen(), getHidden(), getAdded())))
    return failure();
  return verifyDropped(*this, getQuery(), getKey(), getDropoutAttr(), getRandom());
}

bool AttentionOp::drawsRandom() { return bool(getDropoutAttr()); }

SmallVector<Value> AttentionOp::buildEvaluation(OpBuilder &builder) {
  auto plain = cast<AttentionOp>(builder.clone(**this));
  plain.removeDropoutAttr();
  plain.getRandomMutable().clear();
  return plain->getResults();
}

int64_t AttentionOp::getFlops() {
  return attentionFlops(getQuery(), getKey(), getValue(), getCausal(), getWindow());
}

LogicalResult AttentionGradOp::verify() { // attention_grad_c1
  if (failed(verifyAttention(*this, getQuery(), getKey(), getValue(), getMask(), getSeen(),
                             getOutput().getType(), getLse().getType(), getWindow(),
                             getScale().convertToDouble())) ||
      failed(verifyHidden(*this, getSeen(), getHidden(), getAdded())))
    return failure();
  return verifyDropped(*this, getQuery(), getKey(), getDropoutAttr(), getRandom());
}

int64_t AttentionGradOp::getFlops() {
  return attentionFlops(getQuery(), getKey(), getValue(), getCausal(), getWindow()) * 5 / 2;
}

int64_t RopeOp::getPositionDim() {
  return cast<RankedTensorType>(getInput().getType()).getRank() - (getHeaded() ? 3 : 2);
}

LogicalResult RopeOp::verify() { // rope_c1
  auto x = cast<RankedTensorType>(getInput().getType());
  auto cos = cast<RankedTensorType>(getCos().getType());
  if (x.getRank() < (getHeaded() ? 3 : 2) || cos.getRank() != 2 ||
      shale::accumulatorType(cos.getElementType()) != shale::accumulatorType(x.getElementType()) ||
      cos.getDimSize(0) != x.getDimSize(getPositionDim()) || cos.getDimSize(1) < 1 ||
      cos.getDimSize(1) > x.getShape().back() / 2)
    return emitOpError() << "expects input " << (getHeaded() ? "[..., T, H, D]" : "[..., T, D]")
                         << " and cos [T, R/2] with 0 < R <= D; got " << x << " and " << cos;
  return success();
}

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Attention.cpp.inc"

void shale::nn::registerAttentionOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Attention.cpp.inc"
      >();
}
