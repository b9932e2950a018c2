//===- Optimizer.h - Parameter updates ------------------------------------===//
#ifndef SHALE_NN_OPS_OPTIMIZER_H
#define SHALE_NN_OPS_OPTIMIZER_H

#include "dialects/nn/NN.h"

namespace shale::nn {
/// Trait of updates that need of the elements of other ranks only means of whole parameters
/// (Optimizer.td).
template <typename Op>
class NeedsMeansOnly : public mlir::OpTrait::TraitBase<Op, NeedsMeansOnly> {};
/// Trait of updates that compute a block of elements from this block and its state (Optimizer.td).
template <typename Op>
class NeedsBlocksOnly : public mlir::OpTrait::TraitBase<Op, NeedsBlocksOnly> {};

/// Fail after an error if an update violates the constraints of its class (Optimizer.td).
llvm::LogicalResult verifyRanges(mlir::Operation *op);
llvm::LogicalResult verifyOneParameter(mlir::Operation *op);

template <typename Op> class UpdatesRanges : public mlir::OpTrait::TraitBase<Op, UpdatesRanges> {
public:
  static llvm::LogicalResult verifyTrait(mlir::Operation *op) { return verifyRanges(op); }
};
template <typename Op>
class UpdatesOneParameter : public mlir::OpTrait::TraitBase<Op, UpdatesOneParameter> {
public:
  static llvm::LogicalResult verifyTrait(mlir::Operation *op) { return verifyOneParameter(op); }
};
} // namespace shale::nn

#include "dialects/nn/RoundedUpdate.h.inc"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Optimizer.h.inc"

namespace shale::nn {
/// Adds the ops of Optimizer.td to the dialect.
void registerOptimizerOps(NNDialect &dialect);
/// Returns the parameters of a group as the `segments` of an update op.
mlir::ArrayAttr updateRanges(mlir::Builder &builder, const GroupUpdate &group);
} // namespace shale::nn

#endif // SHALE_NN_OPS_OPTIMIZER_H
