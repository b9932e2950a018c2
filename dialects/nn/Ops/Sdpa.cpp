//===- Sdpa.cpp - Attention as libraries compute it -----------------------===//
#include "dialects/nn/Ops/Sdpa.h"
#include <cmath>

using namespace mlir;
using namespace shale::nn;

/// Checks the types and attributes that sdpa and its gradient share.
static LogicalResult verifySdpa(Operation *op, Value query, Value key, Value value, Type result,
                                Type lse, bool causal, double scale) {
  auto q = cast<RankedTensorType>(query.getType());
  auto k = cast<RankedTensorType>(key.getType());
  auto v = cast<RankedTensorType>(value.getType());
  Type element = q.getElementType();
  auto fail = [&]() {
    return op->emitOpError()
           << "expects query [B, T, H, D], key [B, S, G, D], value [B, S, G, E], result "
              "[B, T, H, E] and lse [B, H, T] of one element type; got "
           << q << ", " << k << ", " << v << ", " << result << " and " << lse;
  };
  if (q.getRank() != 4 || k.getRank() != 4 || v.getRank() != 4) // sdpa_c1
    return fail();
  int64_t b = q.getDimSize(0), t = q.getDimSize(1), h = q.getDimSize(2), d = q.getDimSize(3);
  int64_t s = k.getDimSize(1), g = k.getDimSize(2), e = v.getDimSize(3);
  if (k != RankedTensorType::get({b, s, g, d}, element) ||
      v != RankedTensorType::get({b, s, g, e}, element) ||
      result != RankedTensorType::get({b, t, h, e}, element) ||
      (lse != RankedTensorType::get({b, h, t}, element) &&
       lse != RankedTensorType::get({b, h, t}, shale::accumulatorType(element)))) // sdpa_c1
    return fail();
  if (g == 0 || h == 0 || h % g != 0) // sdpa_c2
    return op->emitOpError() << "query heads must be a positive multiple of key heads; got " << h
                             << " and " << g;
  if (causal && t != s) // sdpa_c3
    return op->emitOpError() << "is causal, so it needs as many queries as keys; got " << t
                             << " and " << s;
  if (!std::isfinite(scale)) // sdpa_c4
    return op->emitOpError() << "scale must be finite; got " << scale;
  return success();
}

/// Returns the operations of the products q k^T and p v, over visible pairs only.
static int64_t sdpaFlops(Value query, Value key, Value value, bool causal) {
  auto q = cast<RankedTensorType>(query.getType());
  auto k = cast<RankedTensorType>(key.getType());
  auto v = cast<RankedTensorType>(value.getType());
  int64_t pairs = q.getDimSize(0) * q.getDimSize(1) * q.getDimSize(2) * k.getDimSize(1);
  int64_t flops = 2 * pairs * (q.getDimSize(3) + v.getDimSize(3));
  return causal ? flops / 2 : flops;
}

LogicalResult SdpaOp::verify() {
  return verifySdpa(*this, getQuery(), getKey(), getValue(), getResult().getType(),
                    getLse().getType(), getCausal(), getScale().convertToDouble());
}

int64_t SdpaOp::getFlops() { return sdpaFlops(getQuery(), getKey(), getValue(), getCausal()); }

LogicalResult SdpaGradOp::verify() {
  if (failed(verifySdpa(*this, getQuery(), getKey(), getValue(), getOutput().getType(),
                        getLse().getType(), getCausal(),
                        getScale().convertToDouble()))) // sdpa_grad_c1
    return failure();
  auto q = cast<RankedTensorType>(getQuery().getType());
  auto k = cast<RankedTensorType>(getKey().getType());
  Type packed = RankedTensorType::get(
      {q.getDimSize(0), q.getDimSize(1), q.getDimSize(2) + 2 * k.getDimSize(2), q.getDimSize(3)},
      q.getElementType());
  bool apart = TypeRange(getGradients()) ==
               TypeRange{getQuery().getType(), getKey().getType(), getValue().getType()};
  bool together = TypeRange(getGradients()) == TypeRange{packed} && k == getValue().getType() &&
                  k.getDimSize(1) == q.getDimSize(1);
  if (!apart && !together) // sdpa_grad_c2
    return emitOpError() << "needs results of the types of query, key and value, or " << packed
                         << " if all have one length and depth";
  return success();
}

int64_t SdpaGradOp::getFlops() {
  return sdpaFlops(getQuery(), getKey(), getValue(), getCausal()) * 5 / 2;
}

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Sdpa.cpp.inc"

void shale::nn::registerSdpaOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Sdpa.cpp.inc"
      >();
}
