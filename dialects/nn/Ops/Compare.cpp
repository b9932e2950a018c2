//===- Compare.cpp - Comparisons and choice -------------------------------===//
#include "dialects/nn/Ops/Compare.h"

using namespace mlir;
using namespace shale::nn;

shale::MovedElements SelectOp::getMovedElements(unsigned number) {
  return number == 0 ? shale::MovedElements::None : shale::MovedElements::Some;
}

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Compare.cpp.inc"

void shale::nn::registerCompareOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Compare.cpp.inc"
      >();
}
