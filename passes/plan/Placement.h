//===- Placement.h - Which values share bytes -----------------------------===//
//
// Gives every tensor of a scheduled function a place in an allocation. A value
// may overwrite another one only if the old value has no more readers.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PASSES_PLAN_PLACEMENT_H
#define SHALE_PASSES_PLAN_PLACEMENT_H

#include "dialects/dist/Dist.h"
#include "dialects/mem/Mem.h"
#include "dialects/rt/RT.h"
#include "lib/Target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>

namespace shale {

/// Returns the category of states with a role.
rt::Category categoryOf(nn::Role role);

/// The slice of a range of bytes that belongs to this rank: `shard` bytes for each
/// coordinate on the axis. `inner` is a byte offset within the slice.
struct PlaceSlice {
  mlir::StringAttr axis;
  int64_t shard = 0;
  int64_t inner = 0;

  bool operator==(const PlaceSlice &other) const {
    return axis == other.axis && shard == other.shard && inner == other.inner;
  }
};

/// Bytes of an allocation, starting at `offset`. Each slice is taken within the previous one, the
/// first one within these bytes.
struct Place {
  int64_t allocation = -1;
  int64_t offset = 0;
  llvm::SmallVector<PlaceSlice, 1> slices;

  /// Whether the place begins at an offset that depends on the rank.
  bool isSliced() const { return !slices.empty(); }
  void slice(mlir::StringAttr axis, int64_t bytes) { slices.push_back({axis, bytes, 0}); }
  bool operator==(const Place &other) const {
    return allocation == other.allocation && offset == other.offset && slices == other.slices;
  }
};

struct Allocation {
  rt::Space space = rt::Space::Arena;
  /// For state and arena: the memory of the block.
  mem::Memory memory = mem::Memory::Device;
  /// The type of the first tensor in it, which gives its element type and bytes.
  mlir::RankedTensorType type;
  int64_t bytes = 0;
  /// Bytes of a packed gradient that no gradient occupies.
  int64_t padding = 0;
  rt::Category category = rt::Category::Activations;
  std::string name;
  std::optional<mlir::Location> loc;
  /// `symbol` is the state; `index` is the position of an input, hyper-parameter or metric.
  mlir::StringAttr symbol;
  int64_t index = -1;
  /// The allocation that it is merged into, at `offset` in bytes, or -1.
  int64_t into = -1;
  int64_t offset = 0;
  /// Positions of the first write and of the last access.
  int64_t begin = INT64_MAX, end = -1;
};

class Placement {
public:
  Placement(mlir::func::FuncOp function, const Target &target)
      : function(function), target(target) {}

  /// Finds a place for every value. Emits an error on failure.
  mlir::LogicalResult run();

  /// Returns the place of a value, in an allocation that is not merged into another one.
  Place placeOf(mlir::Value value) const;
  bool hasPlace(mlir::Value value) const { return places.count(value); }
  int64_t positionOf(mlir::Operation *op) const { return positions.lookup(op); }
  int64_t lastUseOf(mlir::Value value) const { return lastUses.lookup(value); }

  /// Whether operand `index` of a pack is not produced in place and must be copied.
  bool packCopies(dist::UnitPackOp pack, unsigned index) const {
    return copies.count({pack, index});
  }

  /// Returns the place of an op's workspace, or nothing if it has none.
  std::optional<Place> workspaceOf(mlir::Operation *op) const;

  std::vector<Allocation> allocations;
  /// The position of the first op of the update; the position of the return if there is none.
  int64_t updateBegin = 0;

private:
  mlir::LogicalResult placeArguments();
  mlir::LogicalResult placeResults(mlir::Operation *op);
  void placeStarted(dist::StartOp start);
  void placeTransfer(mem::StartOp start);
  void placePack(dist::UnitPackOp pack);
  void placeComputed(mlir::Operation *op);
  bool placeAlias(mlir::Operation *op);
  void placeWorkspace(mlir::Operation *op);
  void placeMetrics();
  void findLifetimes();
  const Allocation *quantizedFrom(dist::StartOp start) const;
  void nameQuantized(dist::StartOp start);
  void nameCategories();

  int64_t add(mlir::Value value, llvm::StringRef name);
  /// Whether `op` may write `result` over the bytes of `operand`.
  bool mayTake(mlir::Operation *op, mlir::OpOperand &operand, mlir::Value result);
  bool isDeadAfter(const Place &place, int64_t bytes, mlir::Operation *op, mlir::OpOperand *except);
  /// Returns the place of the state that `value` becomes, if the old value has no readers
  /// once `op` has begun.
  std::optional<Place> placeOfState(mlir::Operation *op, mlir::Value value, mem::Memory memory);
  /// Returns the state whose value is `value` when the function returns, or null.
  mlir::StringAttr stateThatBecomes(mlir::Value value);
  /// Returns the allocation of the state that `value` becomes if the old value has no
  /// readers, so that `value` can be computed in its place. Otherwise returns -1.
  int64_t unreadState(mlir::Value value);
  /// Whether `state` is a gradient accumulator that the function does not return, so that it may be
  /// overwritten.
  bool isSpent(mlir::StringAttr state);
  Place resolve(Place place) const;

  mlir::func::FuncOp function;
  const Target &target;
  llvm::DenseMap<mlir::Value, Place> places;
  llvm::DenseMap<mlir::Operation *, int64_t> workspaces; // allocations
  llvm::DenseMap<mlir::Value, int64_t> lastUses;
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::DenseSet<std::pair<mlir::Operation *, unsigned>> copies;
  llvm::StringMap<int64_t> stateAllocations;
  /// All values placed in an allocation, by the allocation in which they were placed first.
  std::vector<llvm::SmallVector<mlir::Value>> members;
};

/// Returns a short text for reports: scope and name of the op that defines a value.
std::string describeValue(mlir::Value value);

} // namespace shale

#endif // SHALE_PASSES_PLAN_PLACEMENT_H
