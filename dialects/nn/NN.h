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

#include "dialects/nn/NNDialect.h.inc"

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

/// Checks the segment table of a flat update.
mlir::LogicalResult verifySegments(mlir::Operation *op, mlir::Type param, mlir::ArrayAttr segments,
                                   mlir::Value offset);

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

namespace shale::nn {

// Names of the discardable attributes that NNDialect.td lists.
inline constexpr llvm::StringLiteral kStateAttr = "nn.state";
/// The maximum size in bytes of an initial value in the IR.
inline constexpr int64_t kDenseInitLimit = int64_t(4) << 20;
inline constexpr llvm::StringLiteral kRoleAttr = "nn.role";
inline constexpr llvm::StringLiteral kNameAttr = "nn.name";
inline constexpr llvm::StringLiteral kBindingAttr = "nn.binding";
inline constexpr llvm::StringLiteral kBatchDimAttr = "nn.batch_dim";
inline constexpr llvm::StringLiteral kBoundAttr = "nn.bound";
inline constexpr llvm::StringLiteral kIgnoredAttr = "nn.ignored";
inline constexpr llvm::StringLiteral kClassesAttr = "nn.classes";
inline constexpr llvm::StringLiteral kAbsentAttr = "nn.absent";
inline constexpr llvm::StringLiteral kScopeAttr = "nn.scope";
inline constexpr llvm::StringLiteral kPhaseAttr = "nn.phase";
/// On a parameter's state: what it holds of a divided parameter.
inline constexpr llvm::StringLiteral kPartAttr = "nn.part";
inline constexpr llvm::StringLiteral kPrecisionAttr = "nn.precision";
/// On a module: the 16-bit float type in which the file keeps most parameters or computes most
/// products.
inline constexpr llvm::StringLiteral kFileTypeAttr = "nn.file_type";
/// On a module: the target that it is compiled for (lib/Target/Target.h).
inline constexpr llvm::StringLiteral kTargetAttr = "nn.target";
/// On a module with @step: the optimizer's name (dialects/nn/Optimizers.h).
inline constexpr llvm::StringLiteral kOptimizerAttr = "nn.optimizer";
/// On a module whose file has an optimizer: the hyper-parameters that it fixes, and those for which
/// it has a default, by name; and the count of updates, [in the first one, more per update].
inline constexpr llvm::StringLiteral kHypersAttr = "nn.hypers";
inline constexpr llvm::StringLiteral kHyperDefaultsAttr = "nn.hyper_defaults";
inline constexpr llvm::StringLiteral kCounterAttr = "nn.counter";
/// On a module: micro-batches per step; absent: one.
inline constexpr llvm::StringLiteral kAccumulateAttr = "nn.accumulate";

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
