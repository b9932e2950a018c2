//===- Elementwise.cpp - Elementwise ops ----------------------------------===//
#include "dialects/nn/Ops/Elementwise.h"

using namespace mlir;
using namespace shale::nn;

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Elementwise.cpp.inc"

void shale::nn::registerElementwiseOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Elementwise.cpp.inc"
      >();
}
