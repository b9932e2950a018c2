//===- Loss.h - Cross-entropy ---------------------------------------------===//
#ifndef SHALE_NN_OPS_LOSS_H
#define SHALE_NN_OPS_LOSS_H

#include "dialects/nn/NN.h"

namespace shale::nn {
/// Trait of ops for which columns of minus infinity in the first operand are absent classes, and
/// all columns from the value of the attribute kClassesName on (NNBase.td).
template <typename Op> class AbsentClasses : public mlir::OpTrait::TraitBase<Op, AbsentClasses> {};
inline constexpr llvm::StringLiteral kClassesName = "classes";
} // namespace shale::nn

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Loss.h.inc"

namespace shale::nn {
/// Adds the ops of Loss.td to the dialect.
void registerLossOps(NNDialect &dialect);
/// Builds minus infinity in the columns of a matrix of floats from `classes` on, and its values in
/// those before: for an op with AbsentClasses, the matrix is then as one of `classes` columns.
mlir::Value withoutClassesFrom(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value logits,
                               int64_t classes);
/// Builds, for labels [N], a tensor<Nxi1> that is true where a label is not `ignored`.
mlir::Value countedRows(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value labels,
                        int64_t ignored);
} // namespace shale::nn

#endif // SHALE_NN_OPS_LOSS_H
