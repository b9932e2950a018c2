//===- Groups.h - Which ops become one kernel -----------------------------===//
//
// Puts the ops of one block into groups and merges groups while the graph of
// groups stays acyclic. A group has a domain (see Passes.td) of `count` elements;
// once it has a reduction or a repetition along rows, of rows * columns.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PASSES_FUSION_GROUPS_H
#define SHALE_PASSES_FUSION_GROUPS_H

#include "dialects/interfaces/Interfaces.h"
#include "lib/Codegen/RowForm.h"
#include "lib/Target/Target.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include <vector>

namespace shale {

/// Maximum number of ops in a group. Kernels of models have fewer than a hundred; emitting one
/// recurses from results to operands.
inline constexpr size_t kMostOps = 1024;

/// Whether a kernel can compute the op.
bool isFusible(mlir::Operation *op);
/// Whether the op has no operands and is computed wherever it is needed.
bool isFree(mlir::Operation *op);
/// Whether the result has the operand's elements in another shape. Such an op costs nothing outside
/// of a kernel.
bool isAlias(mlir::Operation *op);
/// Whether an op takes each element from one of its operands, as a concatenation does.
bool selects(mlir::Operation *op);
/// Returns the value that has the same elements in memory before reshapes and barriers.
mlir::Value storedRoot(mlir::Value value);
/// Whether two ops are in one phase. Merging phases would keep values that only the backward pass
/// needs live from the forward pass on.
bool samePhase(mlir::Operation *producer, mlir::Operation *consumer);
/// Returns how the op's results read operand `number`.
Access accessOf(mlir::Operation *op, unsigned number);

/// Whether the op's result is larger than its operand, so that recomputing it costs
/// less than reading it.
bool isRepetition(mlir::Operation *op);

/// Clones ops that are cheaper to recompute than to store, one clone per reader.
void duplicateCheapOps(mlir::Block &block, const Target &target);

/// Returns the least divisor of `each` from `wanted` to twice that, else the largest below, down to
/// a fourth; 1 if there is none.
int64_t divisorNear(int64_t each, int64_t wanted);

/// Returns the sizes of a sum of columns, the first of two stages, that a kernel of the target can
/// compute besides what it computes along the rows.
std::optional<nn::ColumnReduction> columnSumOf(mlir::Operation *op, const Target &target);

/// Puts each op whose dedicated kernel can store casts of its results into a cluster with those
/// casts, so that they need not be read again.
void joinStoredCasts(mlir::Block &block, const Target &target);

/// Puts the block's fusible ops into clusters; with `singletons` one op per cluster.
void fuseBlock(mlir::Block &block, const Target &target, bool singletons);

struct FusionGroup {
  std::vector<mlir::Operation *> ops;
  /// Ops that are read through an index map, not at the domain's current element.
  llvm::DenseSet<mlir::Operation *> prologue;
  int64_t count = 0;             ///< elements of every value if rows is 0
  int64_t rows = 0, columns = 0; ///< known once rows is not 0
  bool loops = false;            ///< has a reduction that is not over rows
  bool reduces = false;          ///< has any reduction
  bool transposes = false;       ///< stores a value and its transpose
  /// Sums of columns that are computed with the rows.
  llvm::SmallVector<mlir::Operation *, 0> sums;
  int first = 0, last = 0; ///< positions of its first and last op
};

/// Gives the sums of columns of a group as many parts as the target wants for a kernel of its rows.
void chooseParts(FusionGroup &group, const Target &target);

class Groups {
public:
  /// Builds groups of one op each.
  Groups(mlir::Block &block, const Target &target);
  /// Merges along all edges where that is possible.
  void merge();
  /// Merges groups that read the same values, after merge(): a group of recomputed ops with one
  /// that reads all that it reads.
  void mergeSiblings();
  /// Returns the remaining groups, in the block's order.
  std::vector<FusionGroup *> list();

private:
  struct Domain {
    int64_t rows, columns;
  };
  bool mergeEdge(mlir::Operation *op, unsigned operand);
  bool fits(const FusionGroup &group, int64_t rows, int64_t columns) const;
  bool unify(const FusionGroup &producer, const FusionGroup &consumer, mlir::Value value,
             mlir::Operation *op, Access access, int64_t &rows, int64_t &columns) const;
  bool isPrologue(const FusionGroup &producer, mlir::Value value, mlir::Operation *op) const;
  bool takesSum(const FusionGroup &producer, mlir::Operation *op) const;
  bool takesTranspose(const FusionGroup &producer, const FusionGroup &consumer,
                      mlir::Operation *op) const;
  bool mergeEdges();
  /// The places at which a group without rows computes elements, each from values at its place.
  struct Places {
    int64_t count = 0;  ///< 0: the group computes elements in another way
    bool joins = false; ///< whether the last op joins tensors that have an element for each place
    /// Stored values with an element for each place: groups that share one have the same places.
    llvm::SetVector<mlir::Value> reads;
  };
  Places placesOf(const FusionGroup &group) const;
  /// Merges a group of recomputed ops with another, if both compute elements at the same places in
  /// one phase, and the other one reads all large values that the first one reads. What they share
  /// is then read once. The operands of the first one do not live longer. Its results do: they are
  /// live beside those of the other one, which can raise the peak of a plan. The two groups are
  /// near each other in the backward pass: a gradient reads a kept value, and the next ops read
  /// what is recomputed from it. Groups without recomputed ops can read one value and be far apart;
  /// merged, a result of one would be kept until the other one is computed.
  bool mergeSiblings(int again, int other, const Places &first, const Places &second);
  /// Whether a path from one group to the other passes through ops outside of both.
  bool hasDetour(int from, int to) const;
  void cross(const FusionGroup &group, int change);
  void join(int producer, int consumer, int64_t rows, int64_t columns, bool asPrologue);

  mlir::Block &block;
  const Target &target;
  /// Sums of columns that may join the rows which they are over.
  llvm::DenseMap<mlir::Operation *, nn::ColumnReduction> columnSums;
  bool joinsSums = false; ///< whether edges to them are merged yet
  std::vector<FusionGroup> groups;
  llvm::DenseMap<mlir::Operation *, int> groupOf;
  llvm::DenseMap<mlir::Operation *, int> order;
  /// By position in the block: the ops, the groups that they are in (-1: none), and the positions
  /// of the ops that define their operands.
  std::vector<mlir::Operation *> ops;
  std::vector<int> groupAt;
  std::vector<llvm::SmallVector<int, 4>> sources;
  /// The positions of the ops of each group.
  std::vector<llvm::SmallVector<int, 1>> positions;
  /// State of hasDetour: for each position and each group, the number of the last walk that visited
  /// it.
  mutable std::vector<int> seenOps, seenGroups;
  mutable int walk = 0;
  /// By position: the number of groups with ops on both sides of it. If it is 0,
  /// nothing before the position depends on anything after it.
  std::vector<int> across;
};

} // namespace shale

#endif // SHALE_PASSES_FUSION_GROUPS_H
