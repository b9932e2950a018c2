//===- Cast.cpp - Conversions ---------------------------------------------===//
#include "dialects/nn/Ops/Cast.h"

using namespace mlir;
using namespace shale::nn;

/// Integers keep their value if the result type is at least as wide.
shale::MovedElements CastOp::getMovedElements(unsigned) {
  auto from = dyn_cast<IntegerType>(cast<RankedTensorType>(getInput().getType()).getElementType());
  auto to = dyn_cast<IntegerType>(getType().getElementType());
  return from && to && from.getWidth() > 1 && from.getWidth() <= to.getWidth()
             ? shale::MovedElements::All
             : shale::MovedElements::None;
}

LogicalResult BitcastOp::verify() {
  Type from = getInput().getType().getElementType(), to = getResult().getType().getElementType();
  if (from == to) // bitcast_c1
    return emitOpError("needs f32 and i32, not ") << from << " twice";
  return success();
}

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Cast.cpp.inc"

void shale::nn::registerCastOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Cast.cpp.inc"
      >();
}
