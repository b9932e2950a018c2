//===- BucketReductions.cpp - Reduces gradients in buckets --------------===//
#include "dialects/nn/NN.h"
#include "lib/Analysis/Aliases.h"
#include "lib/Analysis/Gathers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/schedule/Bodies.h"
#include "passes/schedule/Packs.h"
#include "passes/schedule/Passes.h"

using namespace mlir;
using namespace shale;

namespace shale {
#define GEN_PASS_DEF_BUCKETREDUCTIONSPASS
#include "passes/schedule/Passes.h.inc"
} // namespace shale

static CollectiveKind kindOf(dist::StartOp start) {
  return start.getCollective().getCollectiveKind();
}

static bool sumsGradients(dist::StartOp start) {
  dist::MeshOp mesh = dist::getMesh(start);
  return !mesh || mesh.sumsGradients(start.getCollective().getCollectiveAxis());
}

/// Whether a sum over ranks is computed from what the collective brings.
static bool exchangesTerms(dist::StartOp start) {
  return sendsAll(kindOf(start)) && !sums(kindOf(start)) && quantizesFor(start);
}

static bool isReduction(Operation *op) {
  auto start = dyn_cast_or_null<dist::StartOp>(op);
  return start && (sums(kindOf(start)) || exchangesTerms(start));
}

namespace {

/// A reduction of a packed gradient and the ops that only use its result: a second
/// reduction over another axis, and the sum with earlier micro-batches, or of the terms of all
/// ranks.
struct Reduction {
  dist::StartOp start, second;
  Operation *sum = nullptr;

  explicit Reduction(dist::StartOp start) : start(start) {
    Operation *user = onlyUser(start.getWait());
    if (isReduction(user)) {
      second = cast<dist::StartOp>(user);
      user = onlyUser(second.getWait());
    }
    if (!user || user->getNumResults() != 1 || !isMemoryEffectFree(user) ||
        (!exchangesTerms(last()) && shapeOf(user->getResult(0)) != shapeOf(last().getWait())))
      return;
    if (nn::isInPhase(user, nn::Phase::Backward))
      sum = user;
  }
  dist::StartOp last() { return second ? second : start; }

private:
  static Operation *onlyUser(dist::WaitOp wait) {
    return wait->hasOneUse() ? *wait->user_begin() : nullptr;
  }
};

/// Reductions of one kind, axis and type that are exchanged together.
struct Bucket {
  CollectiveKind kind;
  StringRef axis;
  Type element;
  StringAttr unit;
  int64_t bytes = 0;
  std::vector<Reduction> members;
};

} // namespace

/// Returns the axis of the second reductions of a bucket; empty if there are none.
static StringRef secondAxis(const Bucket &bucket) {
  dist::StartOp second = bucket.members.front().second;
  return second ? second.getCollective().getCollectiveAxis() : StringRef();
}

/// Forms buckets in the order in which gradients are complete. A bucket is closed once it
/// has `size` bytes; a gradient of at least `size` bytes is a bucket of its own. With
/// `size` 0 each unit is a bucket.
static std::vector<Bucket> formBuckets(Block &block, int64_t size) {
  std::vector<Bucket> buckets;
  SmallVector<size_t> open;
  for (auto start : block.getOps<dist::StartOp>()) {
    dist::UnitPackOp pack = isReduction(start) ? packOf(start.getInput()) : dist::UnitPackOp();
    // Sums over a tensor axis are of vectors, and reductions over data axes follow them.
    if (!pack || !sumsGradients(start))
      continue;
    auto sent = cast<RankedTensorType>(start.getInput().getType());
    Bucket next{kindOf(start),         start.getCollective().getCollectiveAxis(),
                sent.getElementType(), pack.getUnitAttr().getAttr(),
                nn::tensorBytes(sent), {}};
    next.members.emplace_back(start);
    auto fits = [&](size_t index) {
      const Bucket &bucket = buckets[index];
      return bucket.kind == next.kind && bucket.axis == next.axis &&
             bucket.element == next.element && secondAxis(bucket) == secondAxis(next) &&
             (size > 0 || bucket.unit == next.unit);
    };
    auto place = llvm::find_if(open, fits);
    bool alone = size > 0 && next.bytes >= size;
    if (alone || place == open.end()) {
      buckets.push_back(std::move(next));
      if (!alone)
        open.push_back(buckets.size() - 1);
      continue;
    }
    Bucket &bucket = buckets[*place];
    bucket.bytes += next.bytes;
    bucket.members.push_back(next.members.front());
    if (size > 0 && bucket.bytes >= size)
      open.erase(place);
  }
  // A bucket is placed where its last member is.
  llvm::stable_sort(buckets, [](const Bucket &a, const Bucket &b) {
    dist::StartOp first = a.members.back().start, second = b.members.back().start;
    return first->isBeforeInBlock(second);
  });
  return buckets;
}

/// Moves scalars, such as parts of the gradients' norm, to their first use. Earlier they
/// would wait for the reduction.
static void delayScalars(std::vector<Bucket> &buckets) {
  for (Bucket &bucket : buckets)
    for (Reduction &member : bucket.members)
      for (Operation *user : member.last().getWait()->getUsers()) {
        bool scalar = user->getNumResults() == 1 && isMemoryEffectFree(user) &&
                      cast<RankedTensorType>(user->getResult(0).getType()).getRank() == 0;
        Operation *wanted = scalar ? firstUser(user) : nullptr;
        if (!wanted)
          continue;
        user->moveBefore(wanted);
        dist::WaitOp wait = member.last().getWait();
        if (Operation *first = firstUser(wait); first && wait->isBeforeInBlock(first))
          wait->moveBefore(first);
      }
}

/// Moves `start`, or another op, down to `place`, and ops between that depend on it to behind
/// `last`, which is `place` or comes after it.
static void delayStart(Operation *start, Operation *place, Operation *last) {
  if (place->isBeforeInBlock(start)) { // dependent ops are behind it already
    start->moveBefore(place);
    return;
  }
  SmallVector<Operation *> dependent;
  DenseSet<Operation *> known{start};
  for (Operation *op = start->getNextNode(); op && op != place; op = op->getNextNode())
    if (llvm::any_of(op->getOperands(),
                     [&](Value operand) { return known.contains(operand.getDefiningOp()); })) {
      known.insert(op);
      dependent.push_back(op);
    }
  start->moveBefore(place);
  for (Operation *op : llvm::reverse(dependent))
    op->moveAfter(last);
}

/// Starts the first or the second reductions of a bucket side by side before `place`,
/// and marks them with the bucket's number.
static void startTogether(Bucket &bucket, bool second, Operation *place, int64_t number) {
  Builder builder(place->getContext());
  for (Reduction &member : bucket.members) {
    dist::StartOp start = second ? member.second : member.start;
    if (start != place)
      delayStart(start, place, place);
    if (bucket.members.size() > 1)
      start->setAttr(dist::kBucketAttr, builder.getI64IntegerAttr(number));
  }
}

/// Returns the first op outside of the bucket that reads a result of it; the terminator
/// if there is none.
static Operation *firstUseOf(Bucket &bucket) {
  Operation *first = bucket.members.front().start->getBlock()->getTerminator();
  for (Reduction &member : bucket.members) {
    Operation *last = member.sum ? member.sum : member.last().getWait();
    if (Operation *user = firstUser(last); user && user->isBeforeInBlock(first))
      first = user;
  }
  return first;
}

/// Starts all reduce-scatters where the first of their results is waited for.
static void startAtEnd(MutableArrayRef<Bucket> buckets) {
  Operation *first = nullptr;
  auto visit = [&](llvm::function_ref<void(Reduction &)> body) {
    for (Bucket &bucket : buckets)
      if (sendsAll(bucket.kind))
        for (Reduction &member : bucket.members)
          body(member);
  };
  visit([&](Reduction &member) {
    Operation *wait = member.start.getWait();
    if (!first || wait->isBeforeInBlock(first))
      first = wait;
  });
  visit([&](Reduction &member) {
    if (member.start->isBeforeInBlock(first))
      member.start->moveBefore(first);
  });
}

/// Adds the ops that compute the gradients of a pack. If an op writes its result over an operand,
/// such as a sum, also adds the ops that compute its operands of that type.
static void addMakers(dist::UnitPackOp pack, SmallVectorImpl<Operation *> &makers) {
  SmallVector<Value> values(pack->getOperands());
  while (!values.empty()) {
    Value value = values.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op)
      continue;
    if (isView(op)) {
      values.push_back(op->getOperand(0));
      continue;
    }
    makers.push_back(op);
    if (aliasedOperand(op, cast<OpResult>(value).getResultNumber()))
      for (Value operand : op->getOperands())
        if (operand.getType() == value.getType())
          values.push_back(operand);
  }
}

/// Returns the next exchange of what an exchange brings: the sum of its terms is sent, too.
static dist::StartOp nextExchange(dist::StartOp start) {
  for (Operation *sum : start.getWait()->getUsers())
    for (Operation *kernel : sum->getUsers())
      for (Operation *user : kernel->getUsers())
        if (auto next = dyn_cast<dist::StartOp>(user); next && quantizesFor(next) == kernel)
          return next;
  return nullptr;
}

/// Waits for the exchanges of terms, and for those that follow from them, where the exchanges of
/// the next buckets start.
static void delayExchanges(MutableArrayRef<Bucket> buckets) {
  for (auto [index, bucket] : llvm::enumerate(buckets))
    for (Reduction &member : bucket.members) {
      dist::StartOp start = member.start;
      for (size_t next = index + 1; next < buckets.size() && start && quantizesFor(start);
           ++next, start = nextExchange(start)) {
        Operation *place = buckets[next].members.front().start;
        if (start.getWait()->isBeforeInBlock(place))
          delayStart(start.getWait(), place, buckets[next].members.back().start);
      }
    }
}

/// Forms buckets of the reductions of packed gradients, starts each where its last
/// gradient is complete, and waits for it before the next one starts, so that packed
/// gradients are not kept until the update. With `atEnd`, all start where the first of
/// their results is waited for. With `oneAtATime`, each is waited for before any gradient
/// that is packed next is computed. Assumes that waits are at their use.
static void bucketReductions(Block &block, int64_t bucketSize, bool atEnd, bool oneAtATime) {
  std::vector<Bucket> buckets = formBuckets(block, bucketSize);
  delayScalars(buckets);
  if (atEnd)
    startAtEnd(buckets);
  int64_t number = 0;
  for (Bucket &bucket : buckets)
    startTogether(bucket, /*second=*/false, bucket.members.back().start, number++);
  // The ops after a bucket's reductions are placed where the next bucket starts, those
  // after its second reductions where the one after the next starts. If there is no such
  // bucket, they are placed at their first use.
  auto placeAfter = [&](size_t index, size_t distance) -> Operation * {
    Operation *wanted = firstUseOf(buckets[index]);
    if (atEnd || index + distance >= buckets.size())
      return wanted;
    Operation *start = buckets[index + distance].members.front().start;
    return start->isBeforeInBlock(wanted) ? start : wanted;
  };
  if (!oneAtATime && !atEnd)
    delayExchanges(buckets);
  SmallVector<Operation *> makers;
  if (oneAtATime && !atEnd)
    for (auto pack : block.getOps<dist::UnitPackOp>())
      addMakers(pack, makers);
  auto beforeNextGradient = [&](Bucket &bucket, Operation *place) {
    Operation *start = bucket.members.back().start;
    if (!sendsAll(bucket.kind))
      return place; // reduced in place: no memory is freed before the update
    for (Operation *maker : makers)
      if (start->isBeforeInBlock(maker) && maker->isBeforeInBlock(place))
        place = maker;
    return place;
  };
  for (auto [index, bucket] : llvm::enumerate(buckets)) {
    Operation *next = placeAfter(index, 1), *place = beforeNextGradient(bucket, next);
    bool hasSecond = bool(bucket.members.front().second);
    bool sums = llvm::any_of(bucket.members, [](Reduction &member) { return member.sum; });
    bool bounded = (isReduction(next) || place != next) && sendsAll(bucket.kind);
    if (!bounded && !hasSecond && !sums)
      continue; // each is waited for where it is used
    for (Reduction &member : bucket.members)
      member.start.getWait()->moveBefore(place);
    if (hasSecond)
      startTogether(bucket, /*second=*/true, place, number++);
    else
      for (Reduction &member : bucket.members)
        if (member.sum)
          member.sum->moveBefore(place);
  }
  for (auto [index, bucket] : llvm::enumerate(buckets)) {
    if (!bucket.members.front().second)
      continue;
    Operation *place = placeAfter(index, 2);
    for (Reduction &member : bucket.members)
      member.second.getWait()->moveBefore(place);
    for (Reduction &member : bucket.members)
      if (member.sum)
        member.sum->moveBefore(place);
  }
}

namespace {
struct BucketReductionsPass : public shale::impl::BucketReductionsPassBase<BucketReductionsPass> {
  using Base::Base;
  void runOnOperation() override {
    dist::Strategy strategy = dist::getStrategy(getOperation());
    bool atEnd = dist::reducesAtEnd(strategy);
    int64_t bytes = bucketSize.bytes.value_or(defaultBucketBytes(strategy));
    if (failed(forEachBody(getOperation(), [&](Block &block) {
          bucketReductions(block, bytes, atEnd,
                           /*oneAtATime=*/order == ReductionOrder::Memory);
        })))
      signalPassFailure();
  }
};
} // namespace
