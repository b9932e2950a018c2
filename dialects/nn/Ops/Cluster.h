//===- Cluster.h - Ops that become one kernel -----------------------------===//
#ifndef SHALE_NN_OPS_CLUSTER_H
#define SHALE_NN_OPS_CLUSTER_H

#include "dialects/nn/NN.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Cluster.h.inc"

namespace shale::nn {
/// Adds the ops of Cluster.td to the dialect.
void registerClusterOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_CLUSTER_H
