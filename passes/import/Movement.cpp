//===- Movement.cpp - Chains of reshapes and transposes -------------------===//
#include "passes/import/Movement.h"
#include "dialects/nn/Ops/Data.h"
#include "passes/import/Matchers.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>

using namespace mlir;
using namespace shale;
using namespace shale::recover;

using Factors = SmallVector<int64_t>;

Movement Movement::identity(Value source) {
  Movement movement{source, {}, {}, {}};
  for (int64_t size : tensor(source).getShape()) {
    Factors &factors = movement.from.emplace_back();
    if (size == 1)
      continue;
    factors.push_back(movement.sizes.size());
    movement.sizes.push_back(size);
  }
  movement.to = movement.from;
  return movement;
}

/// Splits `factor` into a major part of `size` and the rest, in every list that contains it.
static void splitFactor(Movement &movement, int64_t factor, int64_t size) {
  int64_t minor = movement.sizes.size();
  movement.sizes.push_back(movement.sizes[factor] / size);
  movement.sizes[factor] = size;
  for (auto *lists : {&movement.from, &movement.to})
    for (Factors &list : *lists)
      if (auto *at = llvm::find(list, factor); at != list.end())
        list.insert(at + 1, minor);
}

/// Regroups the result's factors to `shape`. Returns false if sizes are not divisible, or if there
/// are no elements.
static bool reshape(Movement &movement, ArrayRef<int64_t> shape) {
  if (llvm::is_contained(shape, 0))
    return false;
  Factors all = movement.after();
  SmallVector<Factors> to;
  size_t next = 0;
  for (int64_t size : shape) {
    Factors &group = to.emplace_back();
    while (size > 1) {
      if (next == all.size())
        return false;
      int64_t factor = all[next], have = movement.sizes[factor];
      if (size % have == 0) {
        group.push_back(factor);
        size /= have;
        ++next;
      } else if (have % size == 0) {
        splitFactor(movement, factor, size);
        all.insert(all.begin() + next + 1, movement.sizes.size() - 1);
        group.push_back(factor);
        ++next;
        size = 1;
      } else {
        return false;
      }
    }
  }
  movement.to = std::move(to);
  return true;
}

Movement Movement::of(Value value) {
  SmallVector<Operation *> chain;
  for (Value at = value;;) {
    Operation *op = at.getDefiningOp();
    if (!op || !isa<nn::ReshapeOp, nn::TransposeOp>(op))
      break;
    chain.push_back(op);
    at = op->getOperand(0);
  }
  Movement movement = identity(chain.empty() ? value : chain.back()->getOperand(0));
  for (Operation *op : llvm::reverse(chain)) {
    ++movement.length;
    if (auto transpose = dyn_cast<nn::TransposeOp>(op)) {
      SmallVector<Factors> to;
      for (int64_t dim : transpose.getPerm())
        to.push_back(movement.to[dim]);
      movement.turnsBatch |= op->hasAttr(kTurnsBatch);
      movement.to = std::move(to);
    } else if (!reshape(movement, tensor(op->getResult(0)).getShape())) {
      movement = identity(op->getResult(0));
    }
  }
  movement.simplify();
  return movement;
}

Factors Movement::shape() const {
  Factors shape;
  for (const Factors &group : to) {
    int64_t size = 1;
    for (int64_t factor : group)
      size *= sizes[factor];
    shape.push_back(size);
  }
  return shape;
}

static Factors joined(ArrayRef<Factors> lists) {
  Factors all;
  for (const Factors &list : lists)
    llvm::append_range(all, list);
  return all;
}

Factors Movement::before() const { return joined(from); }
Factors Movement::after() const { return joined(to); }

bool Movement::movesBatch() const {
  Factors first = before(), last = after();
  return turnsBatch && !first.empty() && first[0] != last[0];
}

void Movement::simplify() {
  for (Factors &list : from)
    for (size_t i = 0; i + 1 < list.size();) {
      int64_t major = list[i], minor = list[i + 1];
      auto *group =
          llvm::find_if(to, [&](const Factors &one) { return llvm::is_contained(one, major); });
      auto *at = llvm::find(*group, major);
      if (at + 1 == group->end() || at[1] != minor) {
        ++i;
        continue;
      }
      sizes[major] *= sizes[minor];
      group->erase(at + 1);
      list.erase(list.begin() + i + 1);
    }
  // Renumber the remaining factors in the order of the source.
  llvm::SmallDenseMap<int64_t, int64_t> number;
  Factors left;
  for (int64_t factor : before()) {
    number[factor] = left.size();
    left.push_back(sizes[factor]);
  }
  sizes = std::move(left);
  for (auto *lists : {&from, &to})
    for (Factors &list : *lists)
      for (int64_t &factor : list)
        factor = number[factor];
}

static Value reshaped(PatternRewriter &rewriter, Value value, ArrayRef<int64_t> shape,
                      Operation *like) {
  RankedTensorType type = tensor(value);
  if (type.getShape() == shape)
    return value;
  auto op = nn::ReshapeOp::create(rewriter, like->getLoc(),
                                  RankedTensorType::get(shape, type.getElementType()), value);
  inherit(like, op);
  return op;
}

Value Movement::split(PatternRewriter &rewriter, Operation *like) const {
  Factors shape;
  for (int64_t factor : before())
    shape.push_back(sizes[factor]);
  return reshaped(rewriter, source, shape, like);
}

Value Movement::build(PatternRewriter &rewriter, Operation *like) const {
  Factors order = after();
  if (llvm::is_sorted(order))
    return reshaped(rewriter, source, shape(), like);
  Value value = split(rewriter, like);
  Factors turned;
  for (int64_t factor : order)
    turned.push_back(sizes[factor]);
  auto transpose = nn::TransposeOp::create(
      rewriter, like->getLoc(), RankedTensorType::get(turned, tensor(value).getElementType()),
      value, order);
  inherit(like, transpose);
  if (movesBatch())
    transpose->setAttr(kTurnsBatch, rewriter.getUnitAttr());
  return reshaped(rewriter, transpose, shape(), like);
}

int64_t Movement::cost() const {
  ArrayRef<int64_t> source = tensor(this->source).getShape();
  if (llvm::is_sorted(after()))
    return ArrayRef<int64_t>(shape()) != source;
  Factors split, turned;
  for (int64_t factor : before())
    split.push_back(sizes[factor]);
  for (int64_t factor : after())
    turned.push_back(sizes[factor]);
  return 1 + (ArrayRef<int64_t>(split) != source) + (turned != shape());
}

Movement Movement::ofSplit(Value value) const {
  Movement movement = *this;
  movement.source = value;
  movement.from.clear();
  for (int64_t factor : before())
    movement.from.push_back({factor});
  movement.sizes.assign(tensor(value).getShape().begin(), tensor(value).getShape().end());
  return movement;
}
