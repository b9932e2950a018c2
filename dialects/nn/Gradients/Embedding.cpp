//===- Embedding.cpp - Gradient of a table lookup -------------------------===//
#include "dialects/nn/Ops/Embedding.h"
#include "dialects/nn/Gradients/Build.h"
#include "dialects/nn/Ops/Constant.h"

using namespace mlir;
using namespace shale::nn;

LogicalResult EmbeddingOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                         ArrayRef<bool>, SmallVectorImpl<Value> &operandGrads) {
  Value indices = getIndices();
  if (auto padding = getPadding()) { // index -1 contributes no gradient
    Build build{builder, getLoc()};
    auto type = cast<RankedTensorType>(indices.getType());
    auto filled = [&](int64_t value) -> Value {
      return ConstantOp::create(
          builder, getLoc(),
          DenseElementsAttr::get(type, builder.getIntegerAttr(type.getElementType(), value)));
    };
    indices =
        build.select(build.compare(Predicate::EQ, indices, filled(*padding)), filled(-1), indices);
  }
  operandGrads[0] =
      EmbeddingGradOp::create(builder, getLoc(), getTable().getType(), indices, resultGrads[0]);
  return success();
}
