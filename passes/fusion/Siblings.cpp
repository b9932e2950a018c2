//===- Siblings.cpp - One kernel for groups that read the same values -----===//
#include "dialects/mem/Mem.h"
#include "dialects/nn/NN.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Segments.h"
#include "passes/fusion/Groups.h"

using namespace mlir;
using namespace shale;

/// Whether the op computes an element from elements at the same place, or from repetitions.
static bool isInPlace(Operation *op) {
  return !op->hasTrait<nn::StoredResult>() &&
         (isa<ElementwiseOpInterface>(op) || isAlias(op) || isRepetition(op));
}

/// Whether the op joins tensors of equal size, and a kernel of the target computes all of them at
/// one place, which can then store other values of that place, too.
static bool joinsParts(Operation *op, const Target &target) {
  auto concat = dyn_cast<nn::ConcatOp>(op);
  if (!concat)
    return false;
  OperandRange inputs = concat.getInputs();
  int64_t parts = inputs.size(), count = nn::elements(inputs.front());
  ArrayRef<int64_t> shape = concat.getType().getShape();
  int64_t group = ShapedType::getNumElements(shape.drop_front(concat.getDim()));
  return llvm::all_of(inputs, [&](Value input) { return nn::elements(input) == count; }) &&
         target.storesParts(parts, group / parts);
}

Groups::Places Groups::placesOf(const FusionGroup &group) const {
  if (group.ops.empty())
    return {};
  auto joins = llvm::find_if(group.ops, [](Operation *op) { return !isInPlace(op); });
  Operation *join = joins == group.ops.end() ? nullptr : *joins;
  if (join && !joinsParts(join, target))
    return {};
  Places places{join ? nn::elements(join->getOperand(0)) : group.count, join != nullptr, {}};
  for (Operation *op : group.ops) {
    // Besides a join there is only what it joins.
    if (op != join && (!isInPlace(op) || nn::elements(op->getResult(0)) != places.count))
      return {};
    for (Value operand : op->getOperands()) {
      Operation *source = operand.getDefiningOp();
      auto maker = source ? groupOf.find(source) : groupOf.end();
      bool isInside = maker != groupOf.end() && &groups[maker->second] == &group;
      if (!isInside && nn::elements(operand) == places.count)
        places.reads.insert(storedRoot(operand));
    }
  }
  return places;
}

/// Whether all that a group computes are values of the forward pass, again.
static bool isRecomputed(const FusionGroup &group) {
  return llvm::all_of(group.ops, [](Operation *op) { return op->hasAttr(mem::kRecomputedAttr); });
}

bool Groups::mergeSiblings(int again, int other, const Places &first, const Places &second) {
  const FusionGroup &from = groups[again], &to = groups[other];
  auto isShared = [&](Value value) { return second.reads.contains(value); };
  if (first.joins || !samePhase(from.ops.front(), to.ops.front()) ||
      from.ops.size() + to.ops.size() > kMostOps || !llvm::all_of(first.reads, isShared) ||
      hasDetour(again, other) || hasDetour(other, again))
    return false;
  join(again, other, 0, 0, /*asPrologue=*/second.joins);
  return true;
}

void Groups::mergeSiblings() {
  std::vector<Places> places;
  DenseMap<Value, SmallVector<int>> readers;
  for (auto [id, group] : llvm::enumerate(groups)) {
    places.push_back(placesOf(group));
    for (Value value : places.back().reads)
      readers[value].push_back(id);
  }
  for (int again = 0; again < int(groups.size()); ++again) {
    if (places[again].reads.empty() || !isRecomputed(groups[again]))
      continue;
    for (int other : readers.lookup(places[again].reads.front())) {
      if (other == again || groups[other].ops.empty() ||
          !mergeSiblings(again, other, places[again], places[other]))
        continue;
      places[again] = Places();
      places[other] = placesOf(groups[other]);
      break;
    }
  }
}
