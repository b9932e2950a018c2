//===- SearchMemo.cpp - Results of tensor searches by their problems ------===//
#include "passes/sharding/SearchMemo.h"
#include "passes/sharding/Passes.h"

using namespace mlir;

namespace shale {
inline namespace sharding {

/// The number of results that are kept; then all are forgotten.
constexpr size_t kMostKnown = 64;

namespace {
/// Writes a search's problem as numbers. Attributes, types, locations and names are unique in a
/// context; values and ops have the number of their first appearance.
class ProblemWriter {
public:
  ProblemWriter(ArrayRef<Operation *> ops, const OpenValues &open, std::vector<uintptr_t> &key)
      : ops(ops), open(open), key(key) {
    for (Operation *op : ops)
      numbers.try_emplace(op, numbers.size());
  }

  void add(uintptr_t number) { key.push_back(number); }
  void add(const void *unique) { key.push_back(reinterpret_cast<uintptr_t>(unique)); }
  void add(const llvm::SmallBitVector &bits) {
    add(bits.count());
    for (unsigned bit : bits.set_bits())
      add(bit);
  }

  void write(dist::MeshOp mesh, const AxisList &axes, ArrayRef<TensorCandidate> candidates);

private:
  void add(const TensorCandidate &candidate);
  void addValue(Value value);
  void addUses(Value value);

  ArrayRef<Operation *> ops;
  const OpenValues &open;
  std::vector<uintptr_t> &key;
  llvm::DenseMap<Operation *, uintptr_t> numbers; ///< of the ops, then of other readers
  llvm::DenseMap<Value, uintptr_t> values;
};
} // namespace

void ProblemWriter::addValue(Value value) {
  auto [found, isNew] = values.try_emplace(value, values.size());
  add(found->second);
  if (!isNew)
    return;
  add(value.getType().getAsOpaquePointer());
  add(open.contains(value));
}

/// Adds who reads a value, in program order: the order of its uses depends on how the IR was made.
void ProblemWriter::addUses(Value value) {
  SmallVector<std::pair<Operation *, unsigned>> uses;
  for (OpOperand &use : value.getUses())
    uses.emplace_back(use.getOwner(), use.getOperandNumber());
  llvm::sort(uses, [](auto &a, auto &b) {
    return a.first == b.first ? a.second < b.second : a.first->isBeforeInBlock(b.first);
  });
  for (auto [user, operand] : uses) {
    add(numbers.try_emplace(user, numbers.size()).first->second);
    add(user->getName().getAsOpaquePointer());
    add(operand);
  }
  add(~uintptr_t(0));
}

void ProblemWriter::add(const TensorCandidate &candidate) {
  addValue(candidate.argument);
  addUses(candidate.argument);
  add(candidate.kept);
  add(candidate.barred);
  add(candidate.fixed ? *candidate.fixed + 2 : 0);
}

void ProblemWriter::write(dist::MeshOp mesh, const AxisList &axes,
                          ArrayRef<TensorCandidate> candidates) {
  add(mesh->getAttrDictionary().getAsOpaquePointer());
  for (StringRef axis : axes)
    add(mesh.indexOf(axis));
  add(ops.size());
  for (const TensorCandidate &candidate : candidates)
    add(candidate);
  for (Operation *op : ops) {
    add(op->getName().getAsOpaquePointer());
    add(op->getAttrDictionary().getAsOpaquePointer());
    add(op->getLoc().getAsOpaquePointer());
    for (Value operand : op->getOperands())
      addValue(operand);
    for (Value result : op->getResults()) {
      addValue(result);
      addUses(result);
    }
  }
}

TensorChoice SearchMemo::search(dist::MeshOp mesh, const AxisList &axes, ArrayRef<Operation *> ops,
                                ArrayRef<TensorCandidate> candidates, const OpenValues &open,
                                bool exhaustive) const {
  if (llvm::any_of(ops, [](Operation *op) { return op->getNumRegions() > 0; }))
    return searchTensorSplits(mesh, axes, ops, candidates, open, exhaustive);
  Key key;
  ProblemWriter writer(ops, open, key);
  writer.add(exhaustive);
  writer.write(mesh, axes, candidates);
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (auto found = known.find(key); found != known.end())
      return found->second;
  }
  TensorChoice choice = searchTensorSplits(mesh, axes, ops, candidates, open, exhaustive);
  std::lock_guard<std::mutex> lock(mutex);
  ++searched;
  if (known.size() >= kMostKnown)
    known.clear();
  return known.try_emplace(std::move(key), std::move(choice)).first->second;
}

} // namespace sharding

void registerSearchMemo(DialectRegistry &registry) {
  registry.addExtension(
      +[](MLIRContext *, dist::DistDialect *dialect) { dialect->addInterfaces<SearchMemo>(); });
}

} // namespace shale
