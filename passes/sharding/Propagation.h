//===- Propagation.h - Layouts that follow from fixed ones ----------------===//
#ifndef SHALE_PASSES_SHARDING_PROPAGATION_H
#define SHALE_PASSES_SHARDING_PROPAGATION_H

#include "passes/sharding/TensorLayout.h"
#include "llvm/ADT/DenseMap.h"

namespace shale {
inline namespace sharding {

/// Finds layouts of the results of ops from fixed layouts of other values, along the factors of the
/// ops' rules: first forward, then backward to values that have no split yet, until nothing
/// changes. Axes come one after the other. A factor that is split stays split.
class Propagation {
public:
  /// `ops`: in program order. Values of other ops are whole unless they are fixed.
  Propagation(dist::MeshOp mesh, AxisList axes, llvm::ArrayRef<mlir::Operation *> ops);

  /// Whether layouts propagate through an op: not through updates, nor through what partition and
  /// materialize-units apply to parts.
  static bool passes(mlir::Operation *op);

  void fix(mlir::Value value, const TensorLayout &layout) { fixed[value] = layout; }
  /// Says in which layout something other than the ops reads a value.
  void want(mlir::Value value, const TensorLayout &layout) { wanted[value] = layout; }
  /// Whether norms take any split of their rows: by default only that of their scale.
  bool splitsNorms = false;
  /// Finds the layouts. Earlier results are forgotten, fixed layouts are not.
  void run();
  /// Returns the layout of a value that is fixed or a result of an op; any other value is whole.
  TensorLayout layoutOf(mlir::Value value) const;
  /// Visits the operands of the ops with the layouts that they have and in which the op reads them.
  void forReads(llvm::function_ref<void(mlir::OpOperand &, const TensorLayout &have,
                                        const TensorLayout &read)>
                    visit) const;
  /// Visits the ops with the axes that split their factors.
  void forOps(llvm::function_ref<void(mlir::Operation *, const ShardingRule &, const Assignment &)>
                  visit) const;

private:
  struct OpState {
    ShardingRule rule;
    Assignment assignment;
  };

  void seedConstraint(dist::ConstrainOp op);
  bool isOpen(mlir::Operation *op, const OpState &state, llvm::StringRef axis);
  bool split(OpState &state, Projection part, llvm::StringRef axis);
  bool mayExchange(mlir::Operation *op, const OpState &state, int64_t factor,
                   llvm::StringRef axis) const;
  bool forward(mlir::Operation *op, llvm::StringRef axis);
  bool backward(mlir::Operation *op, llvm::StringRef axis);
  bool keeps(mlir::Operation *op, llvm::ArrayRef<int64_t> operands, llvm::StringRef axis);
  bool keepPartialSums(mlir::Operation *op, llvm::StringRef axis);
  bool propagate(llvm::StringRef axis);

  dist::MeshOp mesh;
  AxisList axes;
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, OpState> states;
  /// Reads of values by the ops, in program order: that of uses depends on how the IR was made.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::OpOperand *, 4>> reads;
  llvm::DenseMap<mlir::Value, TensorLayout> fixed, wanted;
  bool inBlocks = false; ///< a constraint makes blocks, so other ops may split in blocks
};

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_PROPAGATION_H
