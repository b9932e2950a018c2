//===- Groups.cpp - Groups of ops that become one kernel ------------------===//
#include "passes/fusion/Groups.h"
#include "dialects/mem/Mem.h"
#include "dialects/nn/NN.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Segments.h"
#include "mlir/IR/Block.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace shale;

bool shale::isFusible(Operation *op) {
  if (isa<ElementwiseOpInterface>(op))
    return op->getNumResults() == 1 && nn::elements(op->getResult(0)) > 0;
  auto indexed = dyn_cast<IndexedOpInterface>(op);
  return indexed && indexed.canEmit() && nn::elements(op->getResult(0)) > 0;
}

bool shale::isFree(Operation *op) { return op->getNumOperands() == 0 && isFusible(op); }

Access shale::accessOf(Operation *op, unsigned number) {
  if (isa<ElementwiseOpInterface>(op))
    return Access::Same;
  if (auto indexed = dyn_cast<IndexedOpInterface>(op))
    return indexed.getAccess(number);
  return Access::Any;
}

bool shale::isAlias(Operation *op) {
  return isa<IndexedOpInterface>(op) && op->getNumOperands() == 1 &&
         accessOf(op, 0) == Access::Same;
}

bool shale::selects(Operation *op) {
  return op->getNumOperands() > 1 && accessOf(op, 0) == Access::Once;
}

Value shale::storedRoot(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto barrier = dyn_cast<mem::BarrierOp>(op))
      value = barrier->getOperand(cast<OpResult>(value).getResultNumber());
    else if (isAlias(op))
      value = op->getOperand(0);
    else
      break;
  }
  return value;
}

Groups::Groups(Block &block, const Target &target) : block(block), target(target) {
  int number = 0;
  for (Operation &op : block) {
    order[&op] = number++;
    ops.push_back(&op);
    groupAt.push_back(-1);
    sources.emplace_back();
    for (Value operand : op.getOperands())
      if (Operation *source = operand.getDefiningOp(); source && source->getBlock() == &block)
        if (auto it = order.find(source); it != order.end())
          sources.back().push_back(it->second);
    if (!isFusible(&op) || isFree(&op))
      continue;
    FusionGroup group;
    group.ops = {&op};
    group.first = group.last = number - 1;
    group.count = nn::elements(op.getResult(0));
    if (op.getNumOperands() == 1 && !isa<ElementwiseOpInterface>(op)) {
      Access access = accessOf(&op, 0);
      int64_t input = nn::elements(op.getOperand(0));
      if (access == Access::Reduces && input > 0) {
        group.rows = group.count;
        group.columns = input / group.count;
        group.reduces = true;
      }
      group.loops |= access == Access::Folds;
      group.reduces |= access == Access::Folds;
    }
    if (std::optional<nn::ColumnReduction> sum = columnSumOf(&op, target))
      columnSums[&op] = *sum;
    groupOf[&op] = groupAt.back() = groups.size();
    positions.push_back({number - 1});
    groups.push_back(std::move(group));
  }
  seenOps.assign(ops.size(), 0);
  across.assign(ops.size() + 1, 0);
  seenGroups.assign(groups.size(), 0);
}

bool Groups::fits(const FusionGroup &group, int64_t rows, int64_t columns) const {
  if (group.rows != 0)
    return group.rows == rows && group.columns == columns;
  if (group.loops || group.transposes)
    return false;
  return group.count == rows * columns || group.count == rows;
}

/// Finds the domain in which the consumer reads the producer's value at the element
/// that is being computed. Returns false if there is none.
bool Groups::unify(const FusionGroup &producer, const FusionGroup &consumer, Value value,
                   Operation *op, Access access, int64_t &rows, int64_t &columns) const {
  int64_t in = nn::elements(value), out = nn::elements(op->getResult(0));
  rows = columns = 0;
  switch (access) {
  case Access::Same:
    if (producer.rows == 0 && consumer.rows == 0)
      return producer.count == consumer.count;
    rows = producer.rows ? producer.rows : consumer.rows;
    columns = producer.rows ? producer.columns : consumer.columns;
    break;
  case Access::Rows:
    rows = in;
    columns = out / in;
    break;
  case Access::Reduces:
    rows = out;
    columns = in / out;
    break;
  case Access::Once:
  case Access::Folds:
  case Access::Any:
    return false;
  }
  return fits(producer, rows, columns) && fits(consumer, rows, columns);
}

/// Whether the producer is a chain without reductions whose only reader is `op`. If `op`
/// takes each element at most once, the chain may be computed where it is read.
bool Groups::isPrologue(const FusionGroup &producer, Value value, Operation *op) const {
  if (producer.reduces || producer.rows != 0 || !value.hasOneUse())
    return false;
  int inside = groupOf.lookup(value.getDefiningOp());
  for (Operation *member : producer.ops)
    for (Value result : member->getResults())
      for (Operation *user : result.getUsers())
        if (user != op && (!groupOf.contains(user) || groupOf.lookup(user) != inside))
          return false;
  return true;
}

/// Whether the op takes some of a row's elements from one operand and some from another.
static bool splitsRows(Operation *op, int64_t columns) {
  if (!selects(op))
    return false;
  auto concat = dyn_cast<nn::ConcatOp>(op);
  return !concat || llvm::any_of(concat.getInputs(), [&](Value input) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(input.getType()).getShape();
    return ShapedType::getNumElements(shape.drop_front(concat.getDim())) % columns != 0;
  });
}

/// Whether `op` sums columns of the producer's rows, and a kernel of these rows can do that, too. A
/// thread that takes several rows would load an element of each operand of a concatenation for
/// each, unless all threads of a row take the same operand.
bool Groups::takesSum(const FusionGroup &producer, Operation *op) const {
  if (producer.columns == 0 || llvm::any_of(producer.ops, [&](Operation *member) {
        return splitsRows(member, producer.columns);
      }))
    return false;
  auto sum = columnSums.find(op);
  if (sum == columnSums.end() || producer.rows != sum->second.outer * sum->second.each ||
      producer.columns != sum->second.inner)
    return false;
  return target.columnSumParts(producer.rows, producer.columns, producer.sums.size() + 1) > 0;
}

/// Whether `op` transposes matrices that the producer computes for other readers, too, and a kernel
/// can store both. Neither group has rows.
bool Groups::takesTranspose(const FusionGroup &producer, const FusionGroup &consumer,
                            Operation *op) const {
  auto transpose = dyn_cast<nn::TransposeOp>(op);
  return transpose && target.storesTransposes() && !transpose.getInput().hasOneUse() &&
         matchTranspose(transpose) && producer.count == consumer.count && producer.rows == 0 &&
         consumer.rows == 0 && !producer.loops && !consumer.loops;
}

/// Adds `change` to `across` at the positions that a group spans.
void Groups::cross(const FusionGroup &group, int change) {
  for (int at = group.first + 1; at <= group.last; ++at)
    across[at] += change;
}

bool Groups::hasDetour(int from, int to) const {
  ++walk;
  int cut = groups[from].first;
  while (across[cut] != 0)
    --cut;
  seenGroups[to] = walk;
  SmallVector<int> work(positions[to].begin(), positions[to].end());
  while (!work.empty()) {
    int position = work.pop_back_val();
    bool direct = groupAt[position] == to;
    for (int source : sources[position]) {
      if (source < cut || seenOps[source] == walk)
        continue;
      int group = groupAt[source];
      if (group == from) {
        if (!direct)
          return true;
        continue; // another path to it may be a detour
      }
      seenOps[source] = walk;
      if (group < 0) {
        work.push_back(source);
      } else if (seenGroups[group] != walk) {
        seenGroups[group] = walk;
        llvm::append_range(work, positions[group]);
      }
    }
  }
  return false;
}

void Groups::join(int producer, int consumer, int64_t rows, int64_t columns, bool asPrologue) {
  FusionGroup &from = groups[producer], &to = groups[consumer];
  if (asPrologue) {
    to.prologue.insert(from.ops.begin(), from.ops.end());
  } else {
    to.prologue.insert(from.prologue.begin(), from.prologue.end());
    if (rows != 0) {
      to.rows = rows;
      to.columns = columns;
      to.count = rows * columns;
    }
  }
  cross(from, -1);
  cross(to, -1);
  to.first = std::min(to.first, from.first);
  to.last = std::max(to.last, from.last);
  cross(to, 1);
  to.loops |= from.loops;
  to.reduces |= from.reduces;
  to.transposes |= from.transposes;
  llvm::append_range(to.sums, from.sums);
  for (Operation *op : from.ops)
    groupOf[op] = consumer;
  for (int position : positions[producer])
    groupAt[position] = consumer;
  positions[consumer].append(positions[producer]);
  positions[producer].clear();
  to.ops.insert(to.ops.end(), from.ops.begin(), from.ops.end());
  from = FusionGroup();
}

bool shale::samePhase(Operation *producer, Operation *consumer) {
  return nn::phaseOf(producer) == nn::phaseOf(consumer);
}

bool Groups::mergeEdge(Operation *op, unsigned number) {
  Value value = op->getOperand(number);
  Operation *source = value.getDefiningOp();
  auto producer = source ? groupOf.find(source) : groupOf.end(), consumer = groupOf.find(op);
  if (producer == groupOf.end() || consumer == groupOf.end() ||
      producer->second == consumer->second)
    return false;
  if (source->hasTrait<nn::StoredResult>())
    return false;
  int from = producer->second, to = consumer->second;
  if (groups[from].ops.size() + groups[to].ops.size() > kMostOps)
    return false;
  if (auto indexed = dyn_cast<IndexedOpInterface>(op); indexed && indexed.readsMemory(number))
    return false;
  if (!joinsSums && columnSums.contains(op))
    return false;
  Access access = accessOf(op, number);
  // A value of a prologue is not computed at the domain's element and stays in its group.
  if (groups[from].prologue.contains(source))
    return false;
  int64_t rows, columns;
  bool together = !groups[to].prologue.contains(op) &&
                  unify(groups[from], groups[to], value, op, access, rows, columns);
  bool sum = takesSum(groups[from], op);
  if (sum) {
    rows = groups[from].rows;
    columns = groups[from].columns;
    together = true;
  }
  bool transposed = !together && !groups[to].prologue.contains(op) &&
                    takesTranspose(groups[from], groups[to], op);
  if (transposed) {
    rows = columns = 0;
    together = true;
  }
  bool once = access == Access::Once || access == Access::Folds;
  bool before = !together &&
                (once || (access == Access::Same && groups[to].prologue.contains(op))) &&
                isPrologue(groups[from], value, op);
  if ((!together && !before) || !samePhase(source, op) || hasDetour(from, to))
    return false;
  join(from, to, together ? rows : 0, together ? columns : 0, before);
  if (sum)
    groups[to].sums.push_back(op);
  groups[to].transposes |= transposed;
  return true;
}

bool Groups::mergeEdges() {
  bool changed = false;
  for (Operation &op : block)
    for (unsigned i = 0; i < op.getNumOperands(); ++i)
      changed |= mergeEdge(&op, i);
  return changed;
}

void Groups::merge() {
  // Merges producers into consumers until nothing changes: a domain that is found
  // late may admit more ops. Sums of columns join rows, not the other way round.
  while (mergeEdges())
    ;
  joinsSums = true;
  while (!columnSums.empty() && mergeEdges())
    ;
}

std::vector<FusionGroup *> Groups::list() {
  std::vector<FusionGroup *> left;
  for (FusionGroup &group : groups)
    if (!group.ops.empty()) {
      llvm::sort(group.ops,
                 [&](Operation *x, Operation *y) { return order.lookup(x) < order.lookup(y); });
      left.push_back(&group);
    }
  return left;
}
