//===- Duplicate.cpp - Clones ops that are cheaper to recompute than to store ===//
#include "dialects/nn/NN.h"
#include "lib/Analysis/Aliases.h"
#include "lib/Support/DeadOps.h"
#include "mlir/IR/IRMapping.h"
#include "passes/fusion/Groups.h"

using namespace mlir;
using namespace shale;

bool shale::isRepetition(Operation *op) {
  return isFusible(op) && op->getNumOperands() == 1 &&
         nn::elements(op->getOperand(0)) < nn::elements(op->getResult(0)) &&
         (accessOf(op, 0) == Access::Rows || accessOf(op, 0) == Access::Any);
}

/// Maximum number of ops that are cloned to compute a value again. Without it, a chain of n ops
/// would get n^2 clones.
static constexpr size_t kMostRecomputed = 16;
/// Maximum number of ops that are cloned for all operands of a concatenation.
static constexpr size_t kMostJoined = 64;

namespace {

class Duplicator {
public:
  explicit Duplicator(const Target &target) : target(target) {}

  void run(Block &block) {
    for (Operation &op : block)
      if (isFusible(&op) && selects(&op))
        cloneForJoin(&op);
    eraseDeadOps(block);
    for (Operation &op : block)
      if (isFree(&op) || isRepetition(&op) ||
          (isa<ElementwiseOpInterface>(op) && isFusible(&op) &&
           llvm::all_of(op.getOperands(), [&](Value operand) { return isLight(operand); })))
        light.insert(&op);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
      if (!isFusible(&op) || isFree(&op))
        continue;
      if (light.contains(&op) || (isCheap(&op) && isOnlyMoved(op.getResult(0))))
        cloneForEach(&op);
      else if (isCheap(&op))
        cloneForOtherPhases(&op);
      else
        cloneForReductions(&op);
    }
  }

private:
  /// Whether a value is computed from repetitions of smaller values alone.
  bool isLight(Value value) const { return light.contains(value.getDefiningOp()); }

  /// Returns the operand that is not light, null if there is none. Returns nothing if there are
  /// several, or if the op is neither elementwise nor an alias.
  std::optional<Value> costlyOperand(Operation *op) const {
    if (isAlias(op))
      return op->getOperand(0);
    if (!isa<ElementwiseOpInterface>(op))
      return std::nullopt;
    Value costly;
    for (Value operand : op->getOperands()) {
      if (isLight(operand))
        continue;
      if (costly)
        return std::nullopt;
      costly = operand;
    }
    return costly;
  }

  /// Whether the op is an alias, or an elementwise op with at most one operand that is not light.
  /// An example is the addition of a bias to a matmul's result that is then split.
  bool isCheap(Operation *op) const { return costlyOperand(op).has_value(); }

  /// Whether all readers only move elements, each at most once (as slices do), possibly after cheap
  /// ops.
  bool isOnlyMoved(Value value) {
    auto known = onlyMoved.find(value);
    if (known != onlyMoved.end())
      return known->second;
    bool result = !value.use_empty() && llvm::all_of(value.getUses(), [&](OpOperand &use) {
      Operation *user = use.getOwner();
      if (accessOf(user, use.getOperandNumber()) == Access::Once)
        return isFusible(user) && !isView(user);
      return isCheap(user) && isOnlyMoved(user->getResult(0));
    });
    return onlyMoved[value] = result;
  }

  /// Gives each reader a clone of its own. The op itself stays for one reader of its phase.
  void cloneForEach(Operation *op) {
    OpBuilder builder(op);
    builder.setInsertionPointAfter(op);
    bool kept = false;
    for (OpOperand &use : llvm::make_early_inc_range(op->getResult(0).getUses())) {
      if (!kept && nn::phaseOf(use.getOwner()) == nn::phaseOf(op))
        kept = true;
      else
        use.set(cloneFor(use.getOwner(), op, builder)->getResult(0));
    }
    if (op->use_empty())
      erase(op);
  }

  /// Clones an op for a reader, and into its phase: phases do not share kernels.
  Operation *cloneFor(Operation *reader, Operation *op, OpBuilder &builder) {
    Operation *copy = builder.clone(*op);
    if (nn::phaseOf(reader) != nn::phaseOf(op))
      copy->setDiscardableAttrs(reader->getDiscardableAttrDictionary());
    if (light.contains(op))
      light.insert(copy);
    return copy;
  }

  /// Whether each reader in another phase than `phase` computes elements in place, so that the
  /// value can be recomputed in the readers' kernels. Sets `others` to these uses.
  static bool isRecomputable(Value value, nn::PhaseAttr phase,
                             SmallVectorImpl<OpOperand *> &others) {
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (nn::phaseOf(user) == phase)
        continue;
      others.push_back(&use);
      SmallVector<OpOperand *> indirect;
      bool inPlace = isAlias(user) ? isRecomputable(user->getResult(0), phase, indirect)
                                   : isa<ElementwiseOpInterface>(user) && isFusible(user);
      if (!inPlace)
        return false;
    }
    return true;
  }

  /// Returns the value from which a chain of cheap ops of one phase computes the op's result; null
  /// if the chain has more than kMostRecomputed ops.
  Value baseOf(Operation *op) const {
    Value base = op->getResult(0);
    for (size_t count = 0; Operation *source = base.getDefiningOp(); ++count) {
      std::optional<Value> costly = costlyOperand(source);
      if (!isFusible(source) || !costly || !*costly || nn::phaseOf(source) != nn::phaseOf(op))
        break;
      if (count == kMostRecomputed)
        return {};
      base = *costly;
    }
    return base;
  }

  /// Whether the ops between `base` and the op's result, and what they repeat, read part of a value
  /// that an op of the block makes, such as a gathered unit: a clone in a later phase would keep
  /// the whole of it alive.
  static bool readsPartOfMade(Operation *op, Value base) {
    SmallVector<Value> work(op->getOperands());
    DenseSet<Value> seen;
    while (!work.empty()) {
      Value value = work.pop_back_val();
      Operation *source = value.getDefiningOp();
      if (value == base || !source || !seen.insert(value).second)
        continue;
      if (isFusible(source))
        llvm::append_range(work, source->getOperands());
      else if (isView(source) && viewed(value).getDefiningOp())
        return true;
    }
    return false;
  }

  /// Clones an op for its readers in other phases, which then read the result of a matmul instead
  /// of a value that would be written for them alone. An example is a matmul with its bias, which
  /// the gradient of the activation reads.
  void cloneForOtherPhases(Operation *op) {
    SmallVector<OpOperand *> others;
    if (!nn::phaseOf(op) || !isRecomputable(op->getResult(0), nn::phaseOf(op), others) ||
        others.empty())
      return;
    Value base = baseOf(op);
    if (!base || !base.getDefiningOp() || !isa<CostOpInterface>(base.getDefiningOp()) ||
        nn::tensorBytes(base) > nn::tensorBytes(op->getResult(0)) || readsPartOfMade(op, base))
      return;
    for (OpOperand *use : others) {
      OpBuilder builder(use->getOwner());
      use->set(cloneFor(use->getOwner(), op, builder)->getResult(0));
    }
  }

  /// Returns the size of the last dimension, 0 for a scalar.
  static int64_t rowSize(Value value) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
    return shape.empty() ? 0 : shape.back();
  }

  /// Whether all readers, perhaps after a reshape, reduce columns: each result has an element of
  /// several rows. Such sums give the gradient of a norm's weight. Those that a kernel of the rows
  /// can compute do not count.
  bool isOnlyReduced(Value value) const {
    return !value.use_empty() && llvm::all_of(value.getUses(), [&](OpOperand &use) {
      Operation *user = use.getOwner();
      if (isAlias(user))
        return rowSize(user->getResult(0)) == rowSize(value) && isOnlyReduced(user->getResult(0));
      return isFusible(user) && accessOf(user, use.getOperandNumber()) == Access::Folds &&
             !columnSumOf(user, target) && rowSize(user->getResult(0)) == rowSize(value);
    });
  }

  /// Finds the ops that compute `op`'s elements from stored values, in order, and these values:
  /// what other phases and ops without kernels make. Returns false if there are other ops or too
  /// many.
  static bool collectChain(Operation *op, SetVector<Operation *> &chain, SetVector<Value> &stored,
                           size_t most = kMostRecomputed) {
    for (Value operand : op->getOperands()) {
      Operation *source = operand.getDefiningOp();
      if (!source || !isFusible(source) || nn::phaseOf(source) != nn::phaseOf(op))
        stored.insert(operand);
      else if (!(isa<ElementwiseOpInterface>(source) || isAlias(source) || isRepetition(source) ||
                 isFree(source)) ||
               (!chain.contains(source) && !collectChain(source, chain, stored, most)))
        return false;
    }
    chain.insert(op);
    return chain.size() <= most;
  }

  /// Clones the ops that compute the operands of a concatenation for it alone, if others read their
  /// results, too, and the clones read fewer bytes than writing and reading the operands takes. The
  /// concatenation's kernel then computes them. An example are the gradients of gate and up, joined
  /// for one matmul, besides which the activation itself is recomputed.
  static void cloneForJoin(Operation *op) {
    SetVector<Operation *> chain;
    SetVector<Value> stored;
    if (!collectChain(op, chain, stored, kMostJoined))
      return;
    DenseSet<Value> roots;
    int64_t read = 0;
    for (Value value : stored)
      if (roots.insert(storedRoot(value)).second)
        read += nn::tensorBytes(value);
    bool shared = llvm::any_of(chain, [&](Operation *member) {
      return member != op && !isFree(member) &&
             llvm::any_of(member->getUsers(),
                          [&](Operation *user) { return !chain.contains(user); });
    });
    bool joinsStored =
        llvm::any_of(op->getOperands(), [&](Value operand) { return stored.contains(operand); });
    if (!shared || joinsStored || read >= 2 * nn::tensorBytes(op->getResult(0)))
      return;
    OpBuilder builder(op);
    IRMapping mapping;
    for (Operation *member : chain)
      if (member != op)
        builder.clone(*member, mapping);
    for (OpOperand &operand : op->getOpOperands())
      operand.set(mapping.lookup(operand.get()));
  }

  /// Clones the ops that compute a value for its readers, if these reduce columns, the op's kernel
  /// works on rows, and the clones read fewer bytes than writing and reading the value takes.
  void cloneForReductions(Operation *op) {
    if (!isa<ElementwiseOpInterface>(op) || !isOnlyReduced(op->getResult(0)))
      return;
    SetVector<Operation *> chain;
    SetVector<Value> stored;
    if (!collectChain(op, chain, stored))
      return;
    int64_t bytes = 0;
    for (Value value : stored)
      bytes += nn::tensorBytes(value);
    bool onRows = llvm::any_of(chain, [](Operation *member) { return isRepetition(member); });
    if (!onRows || bytes >= 2 * nn::tensorBytes(op->getResult(0)))
      return;
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    IRMapping mapping;
    for (Operation *member : chain)
      if (Operation *copy = builder.clone(*member, mapping); light.contains(member))
        light.insert(copy);
    op->replaceAllUsesWith(mapping.lookup(op->getResult(0)).getDefiningOp());
    erase(op);
  }

  /// Erases an op and its entries in caches: another op may get its address.
  void erase(Operation *op) {
    light.erase(op);
    onlyMoved.erase(op->getResult(0));
    op->erase();
  }

  const Target &target;
  DenseSet<Operation *> light;
  DenseMap<Value, bool> onlyMoved;
};

} // namespace

void shale::duplicateCheapOps(Block &block, const Target &target) { Duplicator(target).run(block); }
