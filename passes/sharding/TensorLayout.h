//===- TensorLayout.h - Layouts of values and assignments of ops ----------===//
//
// Propagation decides, per op, which mesh axes split which factors of its rule
// (an Assignment), and records it on the op; the layouts of operands and results
// follow from it.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PASSES_SHARDING_TENSORLAYOUT_H
#define SHALE_PASSES_SHARDING_TENSORLAYOUT_H

#include "dialects/dist/Dist.h"
#include "dialects/interfaces/Interfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/SmallVector.h"

namespace shale {
// Inline: other stages have groups and layouts of their own.
inline namespace sharding {

using AxisList = llvm::SmallVector<llvm::StringRef, 2>;

/// An axis that splits a dimension: each of so many equal blocks of what earlier axes leave of it.
struct DimAxis {
  DimAxis(llvm::StringRef name, int64_t blocks = 1) : name(name), blocks(blocks) {}
  operator llvm::StringRef() const { return name; }
  bool operator==(const DimAxis &other) const {
    return name == other.name && blocks == other.blocks;
  }

  llvm::StringRef name;
  int64_t blocks;
};
using DimAxes = llvm::SmallVector<DimAxis, 2>;

/// A mutable `#dist.sharding`. Axis names are owned by the context.
struct TensorLayout {
  /// The axes that split each dimension, major to minor.
  llvm::SmallVector<DimAxes, 4> dims;
  /// Axes on which the value is partial.
  llvm::SmallVector<std::pair<llvm::StringRef, dist::Reduction>, 2> partial;

  static TensorLayout replicated(int64_t rank);
  static TensorLayout from(dist::ShardingAttr attr);
  dist::ShardingAttr toAttr(mlir::MLIRContext *context) const;

  /// Returns the dimension that `axis` splits, or -1.
  int64_t dimOf(llvm::StringRef axis) const;
  /// Whether an axis splits blocks of a dimension: parts of ranks are not contiguous.
  bool isInBlocks() const;
  std::optional<dist::Reduction> partialOn(llvm::StringRef axis) const;
  void removePartial(llvm::StringRef axis);
  bool operator==(const TensorLayout &other) const {
    return dims == other.dims && partial == other.partial;
  }
};

/// Returns the type of one rank's part of a value. Split sizes must be divisible by
/// the sizes of their axes (verified).
mlir::RankedTensorType localType(mlir::RankedTensorType type, const TensorLayout &layout,
                                 dist::MeshOp mesh);

/// The axes that split each factor of an op.
struct Assignment {
  /// The axes of each factor of the rule, major to minor.
  llvm::SmallVector<llvm::SmallVector<SplitAxis, 2>> factors;
  /// Axes on which operands stay partial sums, with the numbers of these operands.
  llvm::SmallVector<std::pair<llvm::StringRef, llvm::SmallVector<int64_t>>, 2> kept;

  /// Returns the factor that `axis` splits, or -1.
  int64_t factorOf(llvm::StringRef axis) const;
  bool splitsNothing() const;
  /// Whether operands stay partial on `axis`.
  bool keeps(llvm::StringRef axis) const {
    return llvm::any_of(kept, [&](auto &each) { return each.first == axis; });
  }
};

/// Returns the rule of `op`. An op without a rule gets one without factors: all its
/// dimensions stay whole.
ShardingRule getRule(mlir::Operation *op);

/// Whether a dimension of a tensor has the factor.
bool hasFactor(const TensorFactors &tensor, int64_t factor);
/// Whether results keep the factor, but the op reduces over it on the way, as norms do: if it is
/// split, ranks exchange the sums.
bool isExchanged(const ShardingRule &rule, int64_t factor);

/// Returns the value that a chain of ops with one operand, such as casts, transposes and views,
/// starts from.
mlir::Value rootOf(mlir::Value value);

/// Return the layout in which the op reads operand `i`, or computes result `i`.
TensorLayout operandLayout(const ShardingRule &rule, const Assignment &assignment, unsigned i);
TensorLayout resultLayout(const ShardingRule &rule, const Assignment &assignment, unsigned i);

/// How an axis splits a tensor, in terms of an op's factors.
struct Projection {
  int64_t factor = -1; ///< -1: it splits none
  int64_t blocks = 1;  ///< of the factor
  explicit operator bool() const { return factor >= 0; }
};

/// Returns the factor that `axis` splits in a tensor of `layout`; none if the layout does not use
/// the axis, or if the axes of its dimension do not align with the factors of the dimension.
Projection projectAxis(const ShardingRule &rule, const TensorFactors &tensor,
                       const TensorLayout &layout, llvm::StringRef axis, dist::MeshOp mesh);

/// Whether an axis of `size` ranks may split a factor in addition to `assignment`: the size divides
/// each block of the factor's remaining size, and parts of ranks are contiguous in each tensor
/// unless `inBlocks` is true. Contiguous means that where the factor is a minor part of a
/// dimension, the more major parts are split completely.
bool canSplit(const ShardingRule &rule, const Assignment &assignment, Projection part, int64_t size,
              bool inBlocks);

/// Returns the operands that may stay partial on `axis`; every result is then
/// partial too. Empty if the op needs whole sums.
llvm::SmallVector<int64_t>
keptOperands(const ShardingRule &rule, llvm::ArrayRef<TensorLayout> operands, llvm::StringRef axis);

/// Records on `op` the assignment that computes its results (`dist.factors`).
void setAssignment(mlir::Operation *op, const Assignment &assignment);
/// Returns the assignment that is recorded on `op`, which reads operands with the layouts
/// `operands`. Fails after an error on `op` if its factors cannot be split so, or if its results
/// have other layouts. `inBlocks`: see hasBlocks().
mlir::FailureOr<Assignment> getAssignment(mlir::Operation *op, const ShardingRule &rule,
                                          llvm::ArrayRef<TensorLayout> operands, dist::MeshOp mesh,
                                          bool inBlocks);
/// Removes the layouts of the results and the assignment.
void removeLayouts(mlir::Operation *op);

/// Whether an op constrains blocks of a dimension, or one that is neither the first nor the last: a
/// view that joins it with those before it has it in blocks.
bool makesBlocks(mlir::Operation *op, dist::MeshOp mesh);
/// Whether ops of a function may split factors in blocks, since a constraint makes some.
bool hasBlocks(mlir::FunctionOpInterface function, dist::MeshOp mesh);

/// Returns the axes of the mesh with more than one rank, data axes first. An axis of
/// size one splits nothing and never appears in a layout.
AxisList axesByPriority(dist::MeshOp mesh);
/// Returns the axis that joins these in the order of the mesh, and declares it; of one, itself.
llvm::StringRef joinAxes(AxisList axes, dist::MeshOp mesh);
/// Removes axes of size one from `layout`.
void dropSingletons(TensorLayout &layout, dist::MeshOp mesh);

/// Returns the layout that the IR has for `value`, if any.
std::optional<TensorLayout> getLayout(mlir::Value value);
/// Fails after an error if the function is not one block, or if a value in it has no layout.
mlir::LogicalResult verifyHasLayouts(mlir::FunctionOpInterface function);

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_TENSORLAYOUT_H
