//===- Data.h - Data movement ---------------------------------------------===//
#ifndef SHALE_NN_OPS_DATA_H
#define SHALE_NN_OPS_DATA_H

#include "dialects/nn/NN.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Data.h.inc"

namespace shale::nn {
/// Adds the ops of Data.td to the dialect.
void registerDataOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_DATA_H
