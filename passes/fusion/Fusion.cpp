//===- Fusion.cpp - Puts ops into clusters --------------------------------===//
#include "dialects/mem/Mem.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Cluster.h"
#include "lib/Analysis/Timeline.h"
#include "lib/Support/DeadOps.h"
#include "lib/Support/Remarks.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "passes/fusion/Groups.h"
#include "passes/fusion/Passes.h"
#include "llvm/Support/FormatVariadic.h"
#include <unordered_map>

namespace shale {
#define GEN_PASS_DEF_FUSIONPASS
#include "passes/fusion/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;

namespace {

/// Swaps a cast from 16-bit floats with a following op that only moves or repeats
/// elements: half as many bytes are moved, and the cast becomes part of its readers. A cast that
/// sums of columns read stays where others that are computed along the rows read it.
void sinkCasts(Block &block, const Target &target) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto precision = dyn_cast<PrecisionOpInterface>(op);
    if (!precision || !precision.movesOnly() || op.getNumOperands() != 1 || !isFusible(&op))
      continue;
    auto cast = op.getOperand(0).getDefiningOp<nn::CastOp>();
    // A value that the op adds itself (padding) may not be representable in 16 bits.
    bool adds =
        nn::elements(op.getResult(0)) > nn::elements(op.getOperand(0)) && !isRepetition(&op);
    auto from = cast ? cast.getInput().getType() : RankedTensorType();
    auto type = llvm::cast<RankedTensorType>(op.getResult(0).getType());
    bool isSummed = llvm::any_of(
        op.getUsers(), [&](Operation *user) { return columnSumOf(user, target).has_value(); });
    if (!cast || adds || (isSummed && !cast.getResult().hasOneUse()) ||
        !is16BitFloat(from.getElementType()) || !type.getElementType().isF32())
      continue;
    OpBuilder builder(&op);
    builder.setInsertionPointAfter(&op);
    op.setOperand(0, cast.getInput());
    op.getResult(0).setType(type.clone(from.getElementType()));
    auto after = nn::CastOp::create(builder, op.getLoc(), type, op.getResult(0));
    after->setDiscardableAttrs(op.getDiscardableAttrDictionary());
    op.getResult(0).replaceAllUsesExcept(after.getResult(), after);
    if (cast.use_empty())
      cast.erase();
  }
}

bool isWidening(Operation *op) {
  auto cast = dyn_cast<nn::CastOp>(op);
  return cast && is16BitFloat(cast.getInput().getType().getElementType()) &&
         cast.getResult().getType().getElementType().isF32();
}

/// Moves casts of 16-bit values to f32 into the groups that read them, so that the
/// value between groups is stored in 16 bits.
void widenAtReaders(ArrayRef<FusionGroup *> groups) {
  DenseMap<Operation *, FusionGroup *> groupOf;
  for (FusionGroup *group : groups)
    for (Operation *op : group->ops)
      groupOf[op] = group;
  for (FusionGroup *group : groups) {
    for (Operation *op : llvm::to_vector(group->ops)) {
      if (!isWidening(op))
        continue;
      for (OpOperand &use : llvm::make_early_inc_range(op->getUses())) {
        Operation *user = use.getOwner();
        FusionGroup *reader = groupOf.lookup(user);
        auto indexed = dyn_cast<IndexedOpInterface>(user);
        if (!reader || reader == group || (indexed && indexed.readsMemory(use.getOperandNumber())))
          continue;
        OpBuilder builder(user);
        Operation *copy = builder.clone(*op);
        copy->setDiscardableAttrs(user->getDiscardableAttrDictionary());
        Access access = accessOf(user, use.getOperandNumber());
        bool inPlace =
            access == Access::Same || access == Access::Rows || access == Access::Reduces;
        if (!inPlace || reader->prologue.contains(user))
          reader->prologue.insert(copy);
        reader->ops.insert(llvm::find(reader->ops, user), copy);
        groupOf[copy] = reader;
        use.set(copy->getResult(0));
      }
      if (!op->use_empty())
        continue;
      group->ops.erase(llvm::find(group->ops, op));
      group->prologue.erase(op);
      groupOf.erase(op);
      op->erase();
    }
  }
}

/// Lets a group read a value that it reads before and after a barrier only once, after it.
void readOnce(FusionGroup &group) {
  DenseSet<Operation *> members(group.ops.begin(), group.ops.end());
  DenseMap<std::pair<Value, Type>, Value> known;
  auto keyOf = [](Value value) { return std::make_pair(storedRoot(value), value.getType()); };
  auto isOutside = [&](Value value) {
    return value.getParentBlock() == group.ops.front()->getBlock() &&
           !members.contains(value.getDefiningOp());
  };
  for (Operation *op : group.ops)
    for (Value operand : op->getOperands())
      if (isOutside(operand)) {
        Value &last = known.try_emplace(keyOf(operand), operand).first->second;
        Operation *before = last.getDefiningOp(), *maker = operand.getDefiningOp();
        if (maker && (!before || before->isBeforeInBlock(maker)))
          last = operand;
      }
  for (Operation *op : group.ops)
    for (OpOperand &operand : op->getOpOperands())
      if (isOutside(operand.get()))
        operand.set(known.lookup(keyOf(operand.get())));
}

/// Merges equal ops of a group: clones that were made for different readers and are in one kernel
/// after all.
void mergeEqualOps(FusionGroup &group) {
  constexpr auto flags =
      OperationEquivalence::IgnoreLocations | OperationEquivalence::IgnoreDiscardableAttrs;
  std::unordered_map<size_t, SmallVector<Operation *, 1>> known;
  llvm::erase_if(group.ops, [&](Operation *op) {
    size_t hash = OperationEquivalence::computeHash(op, OperationEquivalence::directHashValue,
                                                    OperationEquivalence::ignoreHashValue, flags);
    SmallVector<Operation *, 1> &others = known[hash];
    auto same = llvm::find_if(others, [&](Operation *other) {
      return group.prologue.contains(op) == group.prologue.contains(other) &&
             OperationEquivalence::isEquivalentTo(op, other, OperationEquivalence::exactValueMatch,
                                                  nullptr, flags);
    });
    if (same == others.end()) {
      others.push_back(op);
      return false;
    }
    op->replaceAllUsesWith(*same);
    group.prologue.erase(op);
    op->erase();
    return true;
  });
}

/// Copies an alias of a group for its readers outside of the group, if ops of the group read the
/// alias as well. Without the copy the group would write the same elements twice.
void copyAliases(FusionGroup &group) {
  DenseSet<Operation *> members(group.ops.begin(), group.ops.end());
  auto isOutside = [&](OpOperand &use) { return !members.contains(use.getOwner()); };
  for (Operation *op : group.ops) {
    Operation *source = isAlias(op) ? op->getOperand(0).getDefiningOp() : nullptr;
    auto uses = op->getUses();
    if (!source || !members.contains(source) || llvm::none_of(uses, isOutside) ||
        llvm::all_of(uses, isOutside))
      continue;
    OpBuilder builder(op);
    builder.setInsertionPointAfter(op);
    Operation *copy = builder.clone(*op);
    op->getResult(0).replaceUsesWithIf(copy->getResult(0), isOutside);
  }
}

/// Removes aliases at the edge of a group, and views of what the group reads: they cost nothing
/// outside of it.
void stripAliases(FusionGroup &group) {
  bool changed = true;
  while (changed) {
    DenseSet<Operation *> members(group.ops.begin(), group.ops.end());
    auto atEdge = [&](Operation *op) {
      bool alias = isAlias(op);
      if (!alias && !isView(op))
        return false;
      Operation *source = op->getOperand(0).getDefiningOp();
      bool entry = !source || !members.contains(source);
      if (entry || !alias)
        return entry;
      return llvm::none_of(op->getUsers(), [&](Operation *user) { return members.contains(user); });
    };
    auto kept = llvm::remove_if(group.ops, atEdge);
    changed = kept != group.ops.end();
    group.ops.erase(kept, group.ops.end());
  }
}

/// Whether the value, and every value computed from it, is read only at the element that is being
/// computed. Indirect readers count, too: a value computed from this one may also be read at
/// another element, and is then computed a second time for that element. Sums of columns with the
/// rows, `sumsInPlace`, add the element where it is computed.
bool isReadInPlace(Value value, bool sumsInPlace) {
  SmallVector<Value> work{value};
  DenseSet<Value> seen;
  while (!work.empty())
    for (OpOperand &use : work.pop_back_val().getUses()) {
      Operation *user = use.getOwner();
      if (user->hasTrait<OpTrait::IsTerminator>())
        continue;
      Access access = accessOf(user, use.getOperandNumber());
      if (access == Access::Folds && sumsInPlace)
        continue;
      if (access != Access::Same && access != Access::Rows && access != Access::Reduces)
        return false;
      for (Value result : user->getResults())
        if (seen.insert(result).second)
          work.push_back(result);
    }
  return true;
}

/// Returns for each result an operand that is read only where the result is written, or -1.
SmallVector<int64_t> findAliases(nn::ClusterOp cluster, bool sumsInPlace) {
  SmallVector<int64_t> aliases;
  DenseSet<unsigned> taken;
  Block &body = cluster.getBody().front();
  for (Value output : body.getTerminator()->getOperands()) {
    int64_t alias = -1;
    bool isSum = sumsInPlace && output.getDefiningOp() &&
                 output.getDefiningOp()->getNumOperands() == 1 &&
                 accessOf(output.getDefiningOp(), 0) == Access::Folds;
    for (BlockArgument argument : body.getArguments()) {
      unsigned number = argument.getArgNumber();
      if (isSum || argument.getType() != output.getType() || taken.contains(number) ||
          !isReadInPlace(argument, sumsInPlace))
        continue;
      alias = number;
      taken.insert(number);
      break;
    }
    aliases.push_back(alias);
  }
  return aliases;
}

/// Marks a cluster whose ops are all recomputations, and lists the nodes that any op recomputes.
void markRecomputed(nn::ClusterOp cluster, const FusionGroup &group) {
  llvm::SetVector<Attribute> nodes;
  Builder builder(cluster.getContext());
  bool all = true;
  for (Operation *op : group.ops) {
    if (!op->hasAttr(mem::kRecomputedAttr))
      all = false;
    else if (std::string node = sourceNode(op->getLoc()); !node.empty())
      nodes.insert(builder.getStringAttr(node));
  }
  cluster->removeAttr(mem::kRecomputedAttr); // of the last op
  if (all)
    cluster->setAttr(mem::kRecomputedAttr, builder.getUnitAttr());
  if (!nodes.empty())
    cluster->setAttr(mem::kRecomputesAttr, builder.getArrayAttr(nodes.getArrayRef()));
}

void buildCluster(const FusionGroup &group) {
  DenseSet<Operation *> members(group.ops.begin(), group.ops.end());
  llvm::SetVector<Value> inputs;
  SmallVector<Value> outputs;
  auto isInside = [&](Value value) {
    Operation *source = value.getDefiningOp();
    return source && (members.contains(source) || isFree(source));
  };
  for (Operation *op : group.ops) {
    for (Value operand : op->getOperands())
      if (!isInside(operand))
        inputs.insert(operand);
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !members.contains(user); }))
        outputs.push_back(result);
  }
  if (outputs.empty())
    return;
  Operation *last = group.ops.back();
  OpBuilder builder(last);
  SmallVector<Location> locations;
  for (Operation *op : group.ops)
    if (!llvm::is_contained(locations, op->getLoc()))
      locations.push_back(op->getLoc());
  auto cluster =
      nn::ClusterOp::create(builder, builder.getFusedLoc(locations), TypeRange(ValueRange(outputs)),
                            inputs.getArrayRef(), DenseI64ArrayAttr());
  cluster->setDiscardableAttrs(last->getDiscardableAttrDictionary());
  markRecomputed(cluster, group);
  Block *body = builder.createBlock(&cluster.getBody());
  IRMapping mapping;
  for (Value input : inputs)
    mapping.map(input, body->addArgument(input.getType(), input.getLoc()));
  auto clone = [&](Operation *op) {
    Operation *copy = builder.clone(*op, mapping);
    copy->setDiscardableAttrs(DictionaryAttr::get(op->getContext()));
  };
  for (Operation *op : group.ops) {
    for (Value operand : op->getOperands())
      if (!mapping.contains(operand))
        clone(operand.getDefiningOp());
    clone(op);
  }
  SmallVector<Value> yielded;
  for (Value output : outputs)
    yielded.push_back(mapping.lookup(output));
  nn::YieldOp::create(builder, cluster.getLoc(), yielded);
  SmallVector<int64_t> aliases = findAliases(cluster, !group.sums.empty());
  if (llvm::any_of(aliases, [](int64_t alias) { return alias >= 0; }))
    cluster.setAliases(aliases);
  for (auto [output, result] : llvm::zip(outputs, cluster.getResults()))
    output.replaceUsesWithIf(result,
                             [&](OpOperand &use) { return !members.contains(use.getOwner()); });
}

/// Puts free ops with readers outside of clusters into clusters of their own. Constants
/// are data and stay.
void wrapFree(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (!isFree(&op) || op.hasTrait<OpTrait::ConstantLike>() || op.use_empty())
      continue;
    FusionGroup group;
    group.ops = {&op};
    buildCluster(group);
  }
}

/// Moves definitions before uses: an op stays in place unless an earlier op needs it.
/// Delaying the user instead would delay all ops that depend on it, and keep its
/// operands live.
void restoreOrder(Block &block) {
  SmallVector<Operation *> order;
  DenseSet<Operation *> placed;
  for (Operation &root : block) {
    SmallVector<std::pair<Operation *, unsigned>> work;
    if (placed.insert(&root).second)
      work.push_back({&root, 0});
    while (!work.empty()) {
      auto &[op, next] = work.back();
      if (next == op->getNumOperands()) {
        order.push_back(op);
        work.pop_back();
        continue;
      }
      Operation *source = op->getOperand(next++).getDefiningOp();
      if (source && source->getBlock() == &block && placed.insert(source).second)
        work.push_back({source, 0});
    }
  }
  for (Operation *op : order)
    op->moveBefore(&block, block.end());
}

/// Emits a remark with the bytes that fusion saves: results inside of clusters are never written.
void remarkClusters(Block &block) {
  int64_t clusters = 0, ops = 0, saved = 0;
  for (auto cluster : block.getOps<nn::ClusterOp>()) {
    ++clusters;
    Block &body = cluster.getBody().front();
    for (Operation &op : body.without_terminator()) {
      ++ops;
      for (Value result : op.getResults())
        if (op.getNumOperands() > 0 &&
            !llvm::is_contained(body.getTerminator()->getOperands(), result))
          saved += std::max<int64_t>(0, nn::tensorBytes(cast<RankedTensorType>(result.getType())));
    }
  }
  auto function = dyn_cast<func::FuncOp>(block.getParentOp());
  if (clusters)
    emitDecision(block.getParentOp()->getLoc(), "fusion",
                 llvm::formatv("{0} ops of @{1} in {2} kernels; {3} bytes are not written", ops,
                               function ? function.getSymName() : StringRef(), clusters, saved)
                     .str());
}

} // namespace

void shale::fuseBlock(Block &block, const Target &target, bool singletons) {
  if (!singletons) {
    sinkCasts(block, target);
    duplicateCheapOps(block, target);
  }
  Groups groups(block, target);
  if (!singletons) {
    groups.merge();
    groups.mergeSiblings();
  }
  std::vector<FusionGroup *> list = groups.list();
  for (FusionGroup *group : list)
    chooseParts(*group, target);
  if (!singletons)
    widenAtReaders(list);
  for (FusionGroup *group : list) {
    readOnce(*group);
    mergeEqualOps(*group);
    stripAliases(*group);
    copyAliases(*group);
    if (!group->ops.empty())
      buildCluster(*group);
  }
  wrapFree(block);
  eraseDeadOps(block);
  // An op may have become part of a cluster that is placed after other readers of it.
  restoreOrder(block);
  remarkClusters(block);
}

namespace {

struct FusionPass : shale::impl::FusionPassBase<FusionPass> {
  using FusionPassBase::FusionPassBase;
  void runOnOperation() override {
    const Target *target = targetOf(getOperation());
    if (!target)
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Block &block : function.getBody()) {
        if (!singletons)
          joinStoredCasts(block, *target);
        fuseBlock(block, *target, singletons);
      }
  }
};

} // namespace
