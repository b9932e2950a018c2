//===- LiveBytes.cpp - Ops delayed to lower the sum of live bytes ---------===//
#include "passes/schedule/LiveBytes.h"
#include "dialects/dist/Dist.h"
#include "dialects/mem/Mem.h"
#include "lib/Analysis/Aliases.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/EquivalenceClasses.h"

using namespace mlir;
using namespace shale;

namespace {

/// A buffer that values share. Ops are given by their number in the program's order.
struct Buffer {
  int64_t bytes = 0;
  SmallVector<int, 2> makers; // ops that write it
  SmallVector<int, 4> users;  // ops that read it
};

/// A change of live bytes if an op is delayed: a buffer is not live before `position`
/// any more, or is still live after it.
struct Change {
  int64_t bytes;
  int position;
};

/// The sum of live bytes over a block whose order changes. Values share bytes as in
/// `placeValues`: views, results in the place of an operand that dies, gradients within
/// their packed gradient.
class LiveBytes {
public:
  explicit LiveBytes(Block &block);

  /// Delays the op at position `from` to the place where the largest sum from `from` on is least.
  void delay(int from);
  int size() const { return ops.size(); }
  /// Applies the order to the block.
  void apply();

private:
  void shareBytes();
  void enterUses();
  void sum();
  int bufferOf(Value value);
  int lastTouch(const Buffer &buffer, int except) const;
  int limitOf(int op) const;
  void findChanges(int op);
  int64_t sumBefore(int position) const;
  int64_t sumBehind(int op, int position) const;

  SmallVector<Operation *> ops;
  DenseMap<Operation *, int> numbers;
  llvm::EquivalenceClasses<Value> shared;
  DenseMap<Value, int> bufferIds;
  std::vector<Buffer> buffers;
  /// By op: the buffers that it reads or writes, and the ops that overwrite its operands.
  std::vector<SmallVector<int, 4>> touches, overwriters;
  std::vector<int> order, positions;
  std::vector<int64_t> live; // by position
  /// Changes if the current op is delayed: buffers that it writes, and buffers that it only reads.
  SmallVector<Change, 4> made, held;
};

} // namespace

static bool isTensor(Value value) { return isa<RankedTensorType>(value.getType()); }

/// Returns the bytes of a tensor, clamped so that sums do not overflow.
static int64_t clampedBytes(Value value) {
  constexpr int64_t most = int64_t(1) << 44;
  return std::clamp<int64_t>(nn::tensorBytes(value), 0, most);
}

LiveBytes::LiveBytes(Block &block) {
  for (Operation &op : block) {
    numbers[&op] = ops.size();
    ops.push_back(&op);
  }
  touches.resize(ops.size());
  overwriters.resize(ops.size());
  for (int i = 0; i < size(); ++i) {
    order.push_back(i);
    positions.push_back(i);
  }
  shareBytes();
  enterUses();
  sum();
}

void LiveBytes::shareBytes() {
  DenseMap<Value, SmallVector<int, 4>> readers;
  for (auto [number, op] : llvm::enumerate(ops))
    if (!isView(op))
      for (Value operand : op->getOperands())
        readers[viewed(operand)].push_back(number);
  for (auto [number, op] : llvm::enumerate(ops)) {
    if (auto pack = dyn_cast<dist::UnitPackOp>(op)) {
      for (Value operand : pack->getOperands())
        if (Value made = viewed(operand);
            made.getDefiningOp() && clampedBytes(made) == clampedBytes(operand))
          shared.unionSets(pack.getResult(), made);
      continue;
    }
    if (isView(op))
      continue;
    for (OpResult result : op->getResults()) {
      OpOperand *taken = aliasedOperand(op, result.getResultNumber());
      if (!taken || taken->get().getType() != result.getType())
        continue;
      Value overwritten = viewed(taken->get());
      ArrayRef<int> all = readers[overwritten];
      if (!overwritten.getDefiningOp() || all.back() != int(number) ||
          clampedBytes(overwritten) != clampedBytes(result))
        continue; // arguments are not memory of the block; others are read later, or are larger
      shared.unionSets(overwritten, result);
      for (int reader : all)
        if (reader != int(number))
          overwriters[reader].push_back(number);
    }
  }
}

int LiveBytes::bufferOf(Value value) {
  value = viewed(value);
  auto [it, inserted] = bufferIds.try_emplace(shared.getOrInsertLeaderValue(value), buffers.size());
  if (inserted)
    buffers.emplace_back();
  return it->second;
}

void LiveBytes::enterUses() {
  auto note = [&](Value value, int op, bool makes) {
    if (!isTensor(value))
      return;
    int id = bufferOf(value);
    Buffer &buffer = buffers[id];
    if (makes)
      buffer.makers.push_back(op);
    else
      buffer.users.push_back(op);
    if (makes)
      buffer.bytes = std::max(buffer.bytes, clampedBytes(value));
    if (!llvm::is_contained(touches[op], id))
      touches[op].push_back(id);
  };
  for (auto [number, op] : llvm::enumerate(ops)) {
    // An offloaded value is copied as soon as it is computed; the copy takes host memory.
    if (isView(op) || isa<mem::OffloadOp>(op))
      continue;
    if (auto start = dyn_cast<dist::StartOp>(op)) {
      // A sent operand counts as dead: the position of its wait is not known yet.
      note(start.getInput(), number, /*makes=*/false);
      note(start.getWait().getResult(), number, /*makes=*/true);
      continue;
    }
    for (Value operand : op->getOperands())
      note(operand, number, /*makes=*/false);
    if (!isa<dist::WaitOp>(op) && !op->hasTrait<OpTrait::ConstantLike>())
      for (Value result : op->getResults())
        note(result, number, /*makes=*/true);
  }
}

void LiveBytes::sum() {
  live.assign(ops.size() + 1, 0);
  for (const Buffer &buffer : buffers) {
    if (buffer.makers.empty() || !buffer.bytes)
      continue;
    live[*llvm::min_element(buffer.makers)] += buffer.bytes;
    live[lastTouch(buffer, -1) + 1] -= buffer.bytes;
  }
  for (int i = 1; i <= size(); ++i)
    live[i] += live[i - 1];
}

/// Returns the last position that reads or writes the buffer, ignoring the op `except`; -1 if there
/// is none.
int LiveBytes::lastTouch(const Buffer &buffer, int except) const {
  int last = -1;
  for (ArrayRef<int> list : {ArrayRef<int>(buffer.makers), ArrayRef<int>(buffer.users)})
    for (int op : list)
      if (op != except)
        last = std::max(last, positions[op]);
  return last;
}

/// Returns the position before which the op has to stay.
int LiveBytes::limitOf(int op) const {
  int limit = size();
  for (Operation *user : ops[op]->getUsers())
    limit = std::min(limit,
                     positions[numbers.lookup(ops[op]->getBlock()->findAncestorOpInBlock(*user))]);
  for (int overwriter : overwriters[op])
    limit = std::min(limit, positions[overwriter]);
  return limit;
}

void LiveBytes::findChanges(int op) {
  made.clear();
  held.clear();
  for (int id : touches[op]) {
    const Buffer &buffer = buffers[id];
    if (!buffer.bytes || buffer.makers.empty())
      continue;
    if (!llvm::is_contained(buffer.makers, op)) {
      held.push_back({buffer.bytes, std::max(lastTouch(buffer, op), positions[op])});
      continue;
    }
    int next = size();
    for (ArrayRef<int> list : {ArrayRef<int>(buffer.makers), ArrayRef<int>(buffer.users)})
      for (int other : list)
        if (other != op)
          next = std::min(next, positions[other]);
    if (next > positions[op])
      made.push_back({buffer.bytes, next});
  }
}

/// Returns the sum at a position if the op is delayed past it.
int64_t LiveBytes::sumBefore(int position) const {
  int64_t bytes = live[position];
  for (const Change &change : made)
    if (position < change.position)
      bytes -= change.bytes;
  for (const Change &change : held)
    if (position > change.position)
      bytes += change.bytes;
  return bytes;
}

/// Returns the sum at `op` if it is placed right behind a position.
int64_t LiveBytes::sumBehind(int op, int position) const {
  int64_t bytes = live[position];
  for (const Change &change : held)
    if (position > change.position)
      bytes += change.bytes;
  for (int id : touches[order[position]])
    if (!buffers[id].makers.empty() && !llvm::is_contained(touches[op], id) &&
        lastTouch(buffers[id], -1) == position)
      bytes -= buffers[id].bytes;
  return bytes;
}

static bool mayBeDelayed(Operation *op) {
  return op->getNumResults() > 0 && isMemoryEffectFree(op) && !isView(op) &&
         !isa<PlacedAtUseOpInterface, dist::UnitPackOp>(op) &&
         !op->hasTrait<OpTrait::ConstantLike>();
}

void LiveBytes::delay(int from) {
  int op = order[from];
  if (!mayBeDelayed(ops[op]))
    return;
  int limit = limitOf(op);
  if (limit <= from + 1)
    return;
  findChanges(op);
  if (made.empty())
    return;
  Attribute phase = ops[op]->getAttr(nn::kPhaseAttr);
  int64_t now = live[from], then = 0, gain = 0;
  int best = from;
  for (int to = from + 1; to < limit; ++to) {
    Operation *passed = ops[order[to]];
    if (!isa<PlacedAtUseOpInterface>(passed) && !isView(passed) &&
        passed->hasAttr(nn::kPhaseAttr) && passed->getAttr(nn::kPhaseAttr) != phase)
      break;
    now = std::max(now, live[to]);
    then = std::max(then, sumBefore(to));
    if (int64_t less = now - std::max(then, sumBehind(op, to)); less > gain) {
      gain = less;
      best = to;
    }
  }
  if (best == from)
    return;
  int64_t behind = sumBehind(op, best);
  for (int to = from + 1; to <= best; ++to) {
    live[to - 1] = sumBefore(to);
    order[to - 1] = order[to];
    positions[order[to]] = to - 1;
  }
  live[best] = behind;
  order[best] = op;
  positions[op] = best;
}

void LiveBytes::apply() {
  for (int i = 1; i < size(); ++i)
    if (ops[order[i - 1]]->getNextNode() != ops[order[i]])
      ops[order[i]]->moveAfter(ops[order[i - 1]]);
}

void shale::delayMakers(Block &block) {
  LiveBytes bytes(block);
  // From the end, so that the ops that an op may be delayed past are already placed.
  for (int position = bytes.size() - 1; position >= 0; --position)
    bytes.delay(position);
  bytes.apply();
}
