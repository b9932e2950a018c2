//===- Gather.h - Elements by index ---------------------------------------===//
#ifndef SHALE_NN_OPS_GATHER_H
#define SHALE_NN_OPS_GATHER_H

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Gather.h.inc"

namespace shale::nn {
/// Adds the ops of Gather.td to the dialect.
void registerGatherOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_GATHER_H
