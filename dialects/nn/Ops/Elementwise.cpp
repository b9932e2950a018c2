//===- Elementwise.cpp - Elementwise ops ----------------------------------===//
#include "dialects/nn/NN.h"

using namespace mlir;
using namespace shale::nn;

shale::MovedElements SelectOp::getMovedElements(unsigned number) {
  return number == 0 ? shale::MovedElements::None : shale::MovedElements::Some;
}

/// Integers keep their value if the result type is at least as wide.
shale::MovedElements CastOp::getMovedElements(unsigned) {
  auto from = dyn_cast<IntegerType>(cast<RankedTensorType>(getInput().getType()).getElementType());
  auto to = dyn_cast<IntegerType>(getType().getElementType());
  return from && to && from.getWidth() > 1 && from.getWidth() <= to.getWidth()
             ? shale::MovedElements::All
             : shale::MovedElements::None;
}
