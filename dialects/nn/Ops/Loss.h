//===- Loss.h - Cross-entropy ---------------------------------------------===//
#ifndef SHALE_NN_OPS_LOSS_H
#define SHALE_NN_OPS_LOSS_H

#include "dialects/nn/NN.h"

namespace shale::nn {
/// Trait of ops for which columns of minus infinity in the first operand are absent classes
/// (NNBase.td).
template <typename Op> class AbsentClasses : public mlir::OpTrait::TraitBase<Op, AbsentClasses> {};
} // namespace shale::nn

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Loss.h.inc"

namespace shale::nn {
/// Adds the ops of Loss.td to the dialect.
void registerLossOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_LOSS_H
