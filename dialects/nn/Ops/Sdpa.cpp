//===- Sdpa.cpp - Attention as libraries compute it -----------------------===//
#include "dialects/nn/Ops/Sdpa.h"
#include <cmath>

using namespace mlir;
using namespace shale::nn;

/// Checks the types and attributes that sdpa and its gradient share.
static LogicalResult verifySdpa(Operation *op, TypeRange inputs, Type result, Type lse, bool causal,
                                std::optional<int64_t> window, double scale) {
  std::optional<AttentionSizes> sizes =
      matchAttention(inputs, cast<ShapedType>(result), cast<ShapedType>(lse));
  if (!sizes) // sdpa_c1
    return op->emitOpError()
           << "expects query [B, T, H, D], key [B, S, G, D] and value [B, S, G, E], or one tensor "
              "[B, T, H + 2 G, D], result [B, T, H, E] and lse [B, H, T] of one element type; got "
           << inputs << ", " << result << " and " << lse;
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

LogicalResult SdpaOp::verify() {
  return verifySdpa(*this, getInputs().getTypes(), getResult().getType(), getLse().getType(),
                    getCausal(), getWindow(), getScale().convertToDouble());
}

AttentionSizes SdpaOp::getSizes() {
  return AttentionSizes::get(getInputs().getTypes(), cast<ShapedType>(getResult().getType()));
}

int64_t SdpaOp::getFlops() { return getSizes().getFlops(getCausal(), getWindow()); }

AttentionSizes SdpaGradOp::getSizes() {
  return AttentionSizes::get(getInputs().getTypes(), cast<ShapedType>(getOutput().getType()));
}

LogicalResult SdpaGradOp::verify() {
  if (failed(verifySdpa(*this, getInputs().getTypes(), getOutput().getType(), getLse().getType(),
                        getCausal(), getWindow(),
                        getScale().convertToDouble()))) // sdpa_grad_c1
    return failure();
  auto output = cast<ShapedType>(getOutput().getType());
  AttentionSizes s = getSizes();
  if (!matchAttentionGradients(getGradients().getTypes(), s, output)) // sdpa_grad_c2
    return emitOpError() << "needs results of the types of query, key and value, or "
                         << s.packedType(output) << " if all have one length and depth";
  return success();
}

int64_t SdpaGradOp::getFlops() { return getSizes().getFlops(getCausal(), getWindow()) * 5 / 2; }

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Sdpa.cpp.inc"

void shale::nn::registerSdpaOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Sdpa.cpp.inc"
      >();
}
