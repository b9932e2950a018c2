//===- Placement.h - Which values share bytes -----------------------------===//
//
// Of a scheduled function: every tensor gets a place in an allocation. Reading
// is easy, overwriting is not: an allocation changes hands only when nobody
// reads the old value any more.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PASSES_PLAN_PLACEMENT_H
#define SHALE_PASSES_PLAN_PLACEMENT_H

#include "dialects/dist/Dist.h"
#include "dialects/mem/Mem.h"
#include "dialects/rt/RT.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>

namespace shale {

/// The category of state of a role.
rt::Category categoryOf(nn::Role role);

/// A rank's slice of what is there: `shard` bytes for each coordinate on the
/// axis, and `inner` further on.
struct PlaceSlice {
  mlir::StringAttr axis;
  int64_t shard = 0;
  int64_t inner = 0;

  bool operator==(const PlaceSlice &other) const {
    return axis == other.axis && shard == other.shard && inner == other.inner;
  }
};

/// Bytes of one allocation, from an offset; with `slices` a slice of them, of
/// which the next one is a slice.
struct Place {
  int64_t allocation = -1;
  int64_t offset = 0;
  llvm::SmallVector<PlaceSlice, 1> slices;

  /// Whether where it begins depends on the rank.
  bool isSliced() const { return !slices.empty(); }
  void slice(mlir::StringAttr axis, int64_t bytes) { slices.push_back({axis, bytes, 0}); }
  bool operator==(const Place &other) const {
    return allocation == other.allocation && offset == other.offset && slices == other.slices;
  }
};

struct Allocation {
  rt::Space space = rt::Space::Arena;
  /// Of state and arena: the block in host memory.
  bool host = false;
  /// The first tensor that it was made for: element type and bytes.
  mlir::RankedTensorType type;
  int64_t bytes = 0;
  /// Bytes of a packed gradient that hold none.
  int64_t padding = 0;
  rt::Category category = rt::Category::Activations;
  std::string name;
  std::optional<mlir::Location> loc;
  /// State and constant: the slot or data; input, hyper and metric: the index.
  mlir::StringAttr symbol;
  int64_t index = -1;
  /// Where it is merged into another one, at `offset` there.
  int64_t into = -1;
  int64_t offset = 0;
  /// Positions of the first write and of the last access.
  int64_t begin = INT64_MAX, end = -1;
};

class Placement {
public:
  explicit Placement(mlir::func::FuncOp function) : function(function) {}

  /// Finds a place for every value. Fails after an error.
  mlir::LogicalResult run();

  /// The place of a value, in an allocation that is not merged.
  Place placeOf(mlir::Value value) const;
  bool hasPlace(mlir::Value value) const { return places.count(value); }
  int64_t positionOf(mlir::Operation *op) const { return positions.lookup(op); }
  int64_t lastUseOf(mlir::Value value) const { return lastUses.lookup(value); }

  /// Operand `index` of a pack is not produced in place and must be copied.
  bool packCopies(dist::UnitPackOp pack, unsigned index) const { return copies.count({pack, index}); }

  std::vector<Allocation> allocations;
  /// Where the update section begins; the position of the return if there is none.
  int64_t updateBegin = 0;

private:
  mlir::LogicalResult placeArguments();
  mlir::LogicalResult placeResults(mlir::Operation *op);
  void placeStarted(dist::StartOp start);
  void placeTransfer(mem::StartOp start);
  void placePack(dist::UnitPackOp pack);
  void placeComputed(mlir::Operation *op);
  bool placeAlias(mlir::Operation *op);
  void placeMetrics();
  void findLifetimes();
  void nameCategories();

  int64_t add(mlir::Value value, llvm::StringRef name);
  /// Whether `value`'s bytes may be overwritten by `op`, giving `result`.
  bool mayTake(mlir::Operation *op, mlir::OpOperand &operand, mlir::Value result);
  bool isDeadAfter(const Place &place, int64_t bytes, mlir::Operation *op, mlir::OpOperand *except);
  /// The place of the state that `value` becomes, if nobody reads the old value once
  /// `op` has begun.
  std::optional<Place> placeOfState(mlir::Operation *op, mlir::Value value, bool host = false);
  /// The state that becomes `value` when the function returns, or null.
  mlir::StringAttr stateThatBecomes(mlir::Value value);
  /// The allocation of the state that `value` becomes, where nobody reads what
  /// was there: it can be made in its place. Else -1.
  int64_t unreadState(mlir::Value value);
  /// Whether what an accumulator held may be overwritten: its step ends here.
  bool isSpent(mlir::StringAttr state);
  Place resolve(Place place) const;

  mlir::func::FuncOp function;
  llvm::DenseMap<mlir::Value, Place> places;
  llvm::DenseMap<mlir::Value, int64_t> lastUses;
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::DenseSet<std::pair<mlir::Operation *, unsigned>> copies;
  llvm::StringMap<int64_t> stateAllocations;
  /// All values placed in an allocation, by the allocation they were placed in first.
  std::vector<llvm::SmallVector<mlir::Value>> members;
};

/// Short text for reports: scope and op name of what makes a value.
std::string describeValue(mlir::Value value);

} // namespace shale

#endif // SHALE_PASSES_PLAN_PLACEMENT_H
