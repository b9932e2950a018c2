//===- Placement.h - Places of values in allocations ----------------------===//
//
// Every tensor of a scheduled function has a place in an allocation. PlaceValues.h
// finds the places.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PASSES_PLAN_PLACEMENT_H
#define SHALE_PASSES_PLAN_PLACEMENT_H

#include "dialects/dist/Dist.h"
#include "dialects/mem/Mem.h"
#include "dialects/rt/RT.h"
#include <string>

namespace shale {

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

  Place() = default;
  explicit Place(int64_t allocation, int64_t offset = 0) : allocation(allocation), offset(offset) {}
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

/// The allocations of a function, and the place of each of its values in one of them.
class Placement {
public:
  /// Returns the place of a value, in an allocation that is not merged into another one.
  Place placeOf(mlir::Value value) const { return resolve(places.lookup(value)); }
  bool hasPlace(mlir::Value value) const { return places.count(value); }

  llvm::ArrayRef<Allocation> getAllocations() const { return allocations; }
  Allocation &allocation(int64_t id) { return allocations[id]; }
  const Allocation &allocation(int64_t id) const { return allocations[id]; }
  /// Returns the allocation in which a value has its place.
  Allocation &allocationOf(mlir::Value value) { return allocations[placeOf(value).allocation]; }
  const Allocation &allocationOf(mlir::Value value) const {
    return allocations[placeOf(value).allocation];
  }
  /// Returns the values with a place in an allocation, the first one first. A merged allocation has
  /// none.
  llvm::ArrayRef<mlir::Value> valuesIn(int64_t id) const { return members[id]; }
  /// Returns the allocation of a state, or -1 if it has none. `state` may be null.
  int64_t allocationOfState(mlir::StringAttr state) const;
  /// Returns the place of an op's workspace, or nothing if it has none.
  std::optional<Place> workspaceOf(mlir::Operation *op) const;
  /// Whether operand `index` of a pack is not produced in place and must be copied.
  bool packCopies(dist::UnitPackOp pack, unsigned index) const {
    return copies.count({pack, index});
  }

  /// Adds an arena allocation that holds `value`. Returns its number.
  int64_t add(mlir::Value value, llvm::StringRef name);
  /// Adds an allocation that a library call may overwrite while `op` runs. Returns its number.
  int64_t addWorkspace(mlir::Operation *op, int64_t bytes);
  /// Makes an allocation that of a state. Returns false if the state has one already.
  bool setState(int64_t id, mlir::StringAttr state);
  /// Gives a value a place in an allocation that is not merged into another one.
  void put(mlir::Value value, Place place);
  /// Moves all values of `id` into the allocation `into`, at `offset` in bytes.
  void merge(int64_t id, int64_t into, int64_t offset);
  /// Notes that operand `index` of a pack must be copied.
  void setPackCopies(dist::UnitPackOp pack, unsigned index) { copies.insert({pack, index}); }

private:
  Place resolve(Place place) const;

  std::vector<Allocation> allocations;
  /// All values placed in an allocation, by allocation.
  std::vector<llvm::SmallVector<mlir::Value>> members;
  llvm::DenseMap<mlir::Value, Place> places;
  llvm::DenseMap<mlir::StringAttr, int64_t> states;      // allocations
  llvm::DenseMap<mlir::Operation *, int64_t> workspaces; // allocations
  llvm::DenseSet<std::pair<mlir::Operation *, unsigned>> copies;
};

/// Returns a short text for reports: scope and name of the op that defines a value.
std::string describeValue(mlir::Value value);

} // namespace shale

#endif // SHALE_PASSES_PLAN_PLACEMENT_H
