//===- State.h - State kept between steps ---------------------------------===//
#ifndef SHALE_NN_OPS_STATE_H
#define SHALE_NN_OPS_STATE_H

#include "dialects/nn/NN.h"
#include "mlir/IR/SymbolTable.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/State.h.inc"

namespace shale::nn {
/// Adds the ops of State.td to the dialect.
void registerStateOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_STATE_H
