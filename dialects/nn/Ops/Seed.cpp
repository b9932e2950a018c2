//===- Seed.cpp - Where given gradients begin -----------------------------===//
#include "dialects/nn/Ops/Seed.h"

using namespace mlir;
using namespace shale::nn;

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Seed.cpp.inc"

namespace shale::nn {
/// Adds the ops of Seed.td to the dialect.
void registerSeedOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Seed.cpp.inc"
      >();
}
} // namespace shale::nn
