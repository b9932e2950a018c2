//===- NN.h - The nn dialect: computation on tensors ----------------------===//
// The dialect, its attributes and what ops share. The ops themselves are in Ops/FAMILY.h, so that a
// changed family rebuilds only the files that use its ops.
#ifndef SHALE_NN_NN_H
#define SHALE_NN_NN_H

#include "dialects/interfaces/Interfaces.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/nn/NNEnums.h.inc"

namespace shale::nn {

/// Returns the type of a matrix' first `rank` dimensions with the type in which
/// its elements are summed: 0 for a scalar, 1 for one element per row. Returns null
/// for other types.
mlir::Type rowType(mlir::Type matrix, int64_t rank);

/// Returns the type of a scalar truth value, tensor<i1>.
mlir::Type boolScalar(mlir::Type scalar);

/// Returns the type of a value, which is a tensor.
inline mlir::RankedTensorType tensorOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// Returns the type of a scalar with the tensor's element type.
mlir::Type scalarOf(mlir::Type tensor);

struct Optimizer; // dialects/nn/Optimizers.h
class StateOp;    // dialects/nn/Ops/State.h

/// A tensor as the matrices that its last two dimensions make. A factored moment has one element
/// per row of all matrices, then one per column of all matrices. A tensor of fewer dimensions has
/// no matrices (`columns` is 0), and its moment one element per element.
struct Factors {
  int64_t matrices = 1, rows = 0, columns = 0;

  static Factors of(llvm::ArrayRef<int64_t> shape);
  bool isMatrix() const { return columns > 0; }
  /// Elements of the tensor.
  int64_t elements() const { return matrices * rows * (isMatrix() ? columns : 1); }
  /// Elements of the moment.
  int64_t size() const { return matrices * (rows + columns); }
};

} // namespace shale::nn

#define GET_ATTRDEF_CLASSES
#include "dialects/nn/NNAttrs.h.inc"

#include "dialects/nn/NNDialect.h.inc"

namespace shale::nn {

// Names of the discardable attributes, which NNDialect.td lists and describes.
inline constexpr llvm::StringLiteral kScopeAttr = NNDialect::ScopeAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kPhaseAttr = NNDialect::PhaseAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kPartAttr = NNDialect::PartAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kTargetAttr = NNDialect::TargetAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kOptimizerAttr = NNDialect::OptimizerAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kHypersAttr = NNDialect::HypersAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kHyperDefaultsAttr =
    NNDialect::HyperDefaultsAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kCounterAttr = NNDialect::CounterAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kAccumulateAttr =
    NNDialect::AccumulateAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kPrecisionAttr = NNDialect::PrecisionAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kFileTypeAttr = NNDialect::FileTypeAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kModelAttr = NNDialect::ModelAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kLossAttr = NNDialect::LossAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kSizesAttr = NNDialect::SizesAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kOutputsAttr = NNDialect::OutputsAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kClassesAttr = NNDialect::ClassesAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kAbsentAttr = NNDialect::AbsentAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kBuffersAttr = NNDialect::BuffersAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kStateAttr = NNDialect::StateAttrHelper::getNameStr();
/// On a result of @forward: the parameter whose gradient it is.
inline constexpr llvm::StringLiteral kGradientOfAttr =
    NNDialect::GradientOfAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kRoleAttr = NNDialect::RoleAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kNameAttr = NNDialect::NameAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kBindingAttr = NNDialect::BindingAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kBatchDimAttr = NNDialect::BatchDimAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kBoundAttr = NNDialect::BoundAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kIgnoredAttr = NNDialect::IgnoredAttrHelper::getNameStr();

/// The maximum size in bytes of an initial value in the IR.
inline constexpr int64_t kDenseInitLimit = int64_t(4) << 20;

/// Returns the phase of the step that an op belongs to, or null.
inline PhaseAttr phaseOf(mlir::Operation *op) { return op->getAttrOfType<PhaseAttr>(kPhaseAttr); }
inline bool isInPhase(mlir::Operation *op, Phase phase) {
  PhaseAttr attr = phaseOf(op);
  return attr && attr.getValue() == phase;
}

/// Gives `to` the phase and scope of `from`, where it has them.
void copyPhaseAndScope(mlir::Operation *from, mlir::Operation *to);

/// Returns a tensor constant of `type` whose elements are all `value`,
/// converted to the element type.
mlir::Value splat(mlir::OpBuilder &builder, mlir::Location loc, mlir::RankedTensorType type,
                  double value);

/// Bytes of one element as stored in memory and files; i1 takes one byte.
int64_t elementBytes(mlir::Type element);
/// Bytes of a whole static tensor; checked in 64 bits, -1 on overflow.
int64_t tensorBytes(mlir::RankedTensorType type);
/// Bytes of a value, which is a tensor.
int64_t tensorBytes(mlir::Value value);
/// Bytes of all tensors among the types.
int64_t tensorBytes(mlir::TypeRange types);
/// Number of elements of a value, which is a static tensor.
int64_t elements(mlir::Value value);

/// Returns the state that `symbol` refers to from `op`; null if it names no state.
StateOp getState(mlir::Operation *op, mlir::Attribute symbol);
/// Returns the state that is bound to a function's argument, or null.
StateOp getState(mlir::BlockArgument argument);

} // namespace shale::nn

#endif // SHALE_NN_NN_H
