//===- Sdpa.cpp - Attention as libraries compute it -----------------------===//
#include "dialects/nn/Ops/Sdpa.h"
#include "dialects/nn/AttentionSizes.h"
#include <cmath>

using namespace mlir;
using namespace shale::nn;

/// Checks the types and attributes that sdpa and its gradient share.
static LogicalResult verifySdpa(Operation *op, Value query, Value key, Value value, Type result,
                                Type lse, bool causal, std::optional<int64_t> window,
                                double scale) {
  Type q = query.getType(), k = key.getType(), v = value.getType();
  std::optional<AttentionSizes> sizes =
      matchAttention(cast<ShapedType>(q), cast<ShapedType>(k), cast<ShapedType>(v),
                     cast<ShapedType>(result), cast<ShapedType>(lse), HeadOrder::PositionsFirst);
  if (!sizes) // sdpa_c1
    return op->emitOpError()
           << "expects query [B, T, H, D], key [B, S, G, D], value [B, S, G, E], result "
              "[B, T, H, E] and lse [B, H, T] of one element type; got "
           << q << ", " << k << ", " << v << ", " << result << " and " << lse;
  if (!sizes->sharesHeads()) // sdpa_c2
    return op->emitOpError() << "query heads must be a positive multiple of key heads; got "
                             << sizes->heads << " and " << sizes->keyHeads;
  if (causal && sizes->length != sizes->keyLength) // sdpa_c3
    return op->emitOpError() << "is causal, so it needs as many queries as keys; got "
                             << sizes->length << " and " << sizes->keyLength;
  if (!std::isfinite(scale)) // sdpa_c4
    return op->emitOpError() << "scale must be finite; got " << scale;
  if (window && (*window < 1 || !causal)) // sdpa_c5
    return op->emitOpError() << "window must be positive and come with causal; got " << *window;
  return success();
}

/// Returns the sizes of an op that was verified.
template <typename OpT> static AttentionSizes sizesOf(OpT op) {
  return AttentionSizes::get(cast<ShapedType>(op.getQuery().getType()),
                             cast<ShapedType>(op.getKey().getType()),
                             cast<ShapedType>(op.getValue().getType()), HeadOrder::PositionsFirst);
}

LogicalResult SdpaOp::verify() {
  return verifySdpa(*this, getQuery(), getKey(), getValue(), getResult().getType(),
                    getLse().getType(), getCausal(), getWindow(), getScale().convertToDouble());
}

int64_t SdpaOp::getFlops() { return sizesOf(*this).getFlops(getCausal(), getWindow()); }

LogicalResult SdpaGradOp::verify() {
  if (failed(verifySdpa(*this, getQuery(), getKey(), getValue(), getOutput().getType(),
                        getLse().getType(), getCausal(), getWindow(),
                        getScale().convertToDouble()))) // sdpa_grad_c1
    return failure();
  AttentionSizes s = sizesOf(*this);
  Type packed = cast<ShapedType>(getQuery().getType())
                    .clone(ArrayRef<int64_t>{s.batch, s.length, s.heads + 2 * s.keyHeads, s.depth});
  bool apart = TypeRange(getGradients()) ==
               TypeRange{getQuery().getType(), getKey().getType(), getValue().getType()};
  bool together = TypeRange(getGradients()) == TypeRange{packed} &&
                  getKey().getType() == getValue().getType() && s.length == s.keyLength;
  if (!apart && !together) // sdpa_grad_c2
    return emitOpError() << "needs results of the types of query, key and value, or " << packed
                         << " if all have one length and depth";
  return success();
}

int64_t SdpaGradOp::getFlops() { return sizesOf(*this).getFlops(getCausal(), getWindow()) * 5 / 2; }

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Sdpa.cpp.inc"

void shale::nn::registerSdpaOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Sdpa.cpp.inc"
      >();
}
