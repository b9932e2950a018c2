//===- Groups.h - Which ops become one kernel -----------------------------===//
//
// Ops of one block in groups, merged while the groups' graph stays free of
// cycles. A group has a domain (see Passes.td) of `count` elements; once a
// reduction or a repetition along rows is in it, of rows * columns.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PASSES_FUSION_GROUPS_H
#define SHALE_PASSES_FUSION_GROUPS_H

#include "dialects/interfaces/Interfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include <vector>

namespace shale {

/// Whether a kernel can compute the op.
bool isFusible(mlir::Operation *op);
/// Whether the op has no operands and is computed wherever it is needed.
bool isFree(mlir::Operation *op);
/// Same elements, other shape: costs nothing outside of a kernel.
bool isAlias(mlir::Operation *op);
/// How the op's results read operand `number`.
Access accessOf(mlir::Operation *op, unsigned number);

/// Puts the block's fusible ops into clusters; with `singletons` one op into each.
void fuseBlock(mlir::Block &block, bool singletons);

struct FusionGroup {
  std::vector<mlir::Operation *> ops;
  /// Ops that are read through an index map, not at the domain's place.
  llvm::DenseSet<mlir::Operation *> prologue;
  int64_t count = 0;               ///< of every value when rows is 0
  int64_t rows = 0, columns = 0;   ///< known once rows is not 0
  bool loops = false;              ///< has a reduction that is not over rows
  bool reduces = false;            ///< has any reduction
  int first = 0, last = 0;         ///< positions of its first and last op
};

class Groups {
public:
  /// Groups of one op each.
  explicit Groups(mlir::Block &block);
  /// Merges along all edges where that is possible.
  void merge();
  /// Groups that are left, in the block's order.
  std::vector<FusionGroup *> list();

private:
  struct Domain {
    int64_t rows, columns;
  };
  bool mergeEdge(mlir::Operation *op, unsigned operand);
  bool fits(const FusionGroup &group, int64_t rows, int64_t columns) const;
  bool unify(const FusionGroup &producer, const FusionGroup &consumer, mlir::Value value, mlir::Operation *op, Access access,
             int64_t &rows, int64_t &columns) const;
  bool isPrologue(const FusionGroup &producer, mlir::Value value, mlir::Operation *op) const;
  /// A path from one group to the other that leaves both.
  bool hasDetour(int from, int to) const;
  void cross(const FusionGroup &group, int change);
  void join(int producer, int consumer, int64_t rows, int64_t columns, bool asPrologue);

  mlir::Block &block;
  std::vector<FusionGroup> groups;
  llvm::DenseMap<mlir::Operation *, int> groupOf;
  llvm::DenseMap<mlir::Operation *, int> order;
  /// By position in the block: the ops themselves, and the positions of what they read.
  std::vector<mlir::Operation *> ops;
  std::vector<llvm::SmallVector<int, 4>> sources;
  /// Of hasDetour: positions and groups that the walk with this number has seen.
  mutable std::vector<int> seenOps, seenGroups;
  mutable int walk = 0;
  /// How many groups have ops on both sides of a position: where none has, what is
  /// before it depends on nothing after it.
  std::vector<int> across;
};

} // namespace shale

#endif // SHALE_PASSES_FUSION_GROUPS_H
