//===- Layout.h - Shardings while they are computed -----------------------===//
//
// Propagation decides, per op, which mesh axes split which factors of its rule
// (an Assignment); the layouts of operands and results follow from it. The
// partitioner finds the same assignment again from the layouts that are written
// on the IR.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PASSES_SHARDING_LAYOUT_H
#define SHALE_PASSES_SHARDING_LAYOUT_H

#include "dialects/dist/Dist.h"
#include "dialects/interfaces/Interfaces.h"
#include "llvm/ADT/SmallVector.h"

namespace shale {
// Inline: other stages have groups and layouts of their own.
inline namespace sharding {

using AxisList = llvm::SmallVector<llvm::StringRef, 2>;

/// A `#dist.sharding` that can be changed. Names are owned by the context.
struct Layout {
  /// For each dimension the axes that split it, major to minor.
  llvm::SmallVector<AxisList, 4> dims;
  /// Axes on which the value is partial.
  llvm::SmallVector<std::pair<llvm::StringRef, dist::Reduction>, 2> partial;

  static Layout replicated(int64_t rank);
  static Layout from(dist::ShardingAttr attr);
  dist::ShardingAttr toAttr(mlir::MLIRContext *context) const;

  /// The dimension that `axis` splits, or -1.
  int64_t dimOf(llvm::StringRef axis) const;
  std::optional<dist::Reduction> partialOn(llvm::StringRef axis) const;
  void removePartial(llvm::StringRef axis);
  bool operator==(const Layout &other) const {
    return dims == other.dims && partial == other.partial;
  }
};

/// The type of one rank's part of a value. Sizes divide (verified).
mlir::RankedTensorType localType(mlir::RankedTensorType type,
                                 const Layout &layout, dist::MeshOp mesh);

/// Which axes split which factors of an op.
struct Assignment {
  /// For each factor of the rule, major to minor.
  llvm::SmallVector<llvm::SmallVector<SplitAxis, 2>> factors;
  /// Axes on which operands stay partial sums, with these operands.
  llvm::SmallVector<std::pair<llvm::StringRef, llvm::SmallVector<int64_t>>, 2> kept;

  /// The factor that `axis` splits, or -1.
  int64_t factorOf(llvm::StringRef axis) const;
  bool splitsNothing() const;
};

/// The rule of `op`; for an op without one everything is whole.
ShardingRule getRule(mlir::Operation *op);

/// The layout in which the op reads operand `i`, or makes result `i`.
Layout operandLayout(const ShardingRule &rule, const Assignment &assignment,
                     unsigned i);
Layout resultLayout(const ShardingRule &rule, const Assignment &assignment,
                    unsigned i);

/// The factor that `axis` splits in a tensor of `layout`, or -1: the axis is not
/// there, or the dimension's axes do not follow its factors.
int64_t projectAxis(const ShardingRule &rule, const TensorFactors &tensor,
                    const Layout &layout, llvm::StringRef axis,
                    dist::MeshOp mesh);

/// Whether `axis` may split `factor` on top of what `assignment` splits: the size
/// divides, and wherever the factor is a minor part of a dimension the parts
/// above it are split to the end.
bool canSplit(const ShardingRule &rule, const Assignment &assignment,
              int64_t factor, int64_t size);

/// Finds the operands that may stay partial on `axis`: with them every result is
/// partial. Empty when the op must see whole sums.
llvm::SmallVector<int64_t> keptOperands(const ShardingRule &rule,
                                        llvm::ArrayRef<Layout> operands,
                                        llvm::StringRef axis);

/// Finds the assignment that makes results of `results` from operands that are
/// there as `operands`. Fails after an error on `op` where none does.
mlir::FailureOr<Assignment> recoverAssignment(mlir::Operation *op,
                                              const ShardingRule &rule,
                                              llvm::ArrayRef<Layout> operands,
                                              llvm::ArrayRef<Layout> results,
                                              dist::MeshOp mesh);

/// The axes of the mesh of more than one rank, data axes first: an axis of size
/// one splits nothing and is never written.
AxisList axesByPriority(dist::MeshOp mesh);
void dropSingletons(Layout &layout, dist::MeshOp mesh);

/// The layout that is written on the IR for `value`, if there is one.
std::optional<Layout> getLayout(mlir::Value value);

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_LAYOUT_H
