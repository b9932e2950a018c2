//===- Optimizer.h - Parameter updates ------------------------------------===//
#ifndef SHALE_NN_OPS_OPTIMIZER_H
#define SHALE_NN_OPS_OPTIMIZER_H

#include "dialects/nn/NN.h"

namespace shale::nn {
/// Trait of updates that need of the elements of other ranks only means of whole parameters
/// (Optimizer.td).
template <typename Op>
class NeedsMeansOnly : public mlir::OpTrait::TraitBase<Op, NeedsMeansOnly> {};
} // namespace shale::nn

#include "dialects/nn/RoundedUpdate.h.inc"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Optimizer.h.inc"

namespace shale::nn {
/// Adds the ops of Optimizer.td to the dialect.
void registerOptimizerOps(NNDialect &dialect);
/// Checks how an update rounds new parameters.
mlir::LogicalResult verifyRounding(RoundedUpdateOpInterface op);
/// Returns the parameters of a group as the `segments` of an update op.
mlir::ArrayAttr updateRanges(mlir::Builder &builder, const GroupUpdate &group);
} // namespace shale::nn

#endif // SHALE_NN_OPS_OPTIMIZER_H
