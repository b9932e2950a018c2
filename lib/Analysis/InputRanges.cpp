//===- InputRanges.cpp - Valid integer ranges of a function's inputs ------===//
#include "lib/Analysis/InputRanges.h"
#include "dialects/nn/Ops/Cluster.h"

using namespace mlir;
using namespace shale;

namespace {
/// The index ranges that the uses of a value accept.
struct Uses {
  std::optional<IndexRange> all;  ///< range of the uses of all elements
  std::optional<IndexRange> some; ///< range of the uses of some elements
  bool free = false;              ///< whether there is a use without a range
  std::optional<IndexRange> range() const;
};
} // namespace

static bool takes(const IndexRange &range, int64_t value) {
  return (value >= 0 && value < range.size) || range.also == value;
}

static std::optional<IndexRange> meet(const std::optional<IndexRange> &a,
                                      const std::optional<IndexRange> &b) {
  if (!a || !b)
    return a ? a : b;
  IndexRange both{std::min(a->size, b->size)};
  if (a->also && takes(*b, *a->also))
    both.also = a->also;
  else if (b->also && takes(*a, *b->also))
    both.also = b->also;
  return both;
}

std::optional<IndexRange> Uses::range() const { return some && !free ? meet(all, some) : all; }

/// Adds the uses in a block. In reverse order, all uses of a value are visited before its
/// definition.
static void addUses(Block &block, llvm::DenseMap<Value, Uses> &uses) {
  for (Operation &op : llvm::reverse(block)) {
    if (isa<nn::YieldOp>(op)) // its operands have the uses of the cluster's results
      continue;
    auto cluster = dyn_cast<nn::ClusterOp>(op);
    if (cluster) {
      Block &body = cluster.getBody().front();
      for (auto [inner, result] : llvm::zip(body.getTerminator()->getOperands(), op.getResults()))
        uses[inner] = uses.lookup(result);
      addUses(body, uses);
    }
    for (OpOperand &operand : op.getOpOperands()) {
      unsigned number = operand.getOperandNumber();
      std::optional<IndexRange> range;
      if (auto user = dyn_cast<IndexUserOpInterface>(op))
        range = user.getIndexRange(number);
      MovedElements moved = MovedElements::None;
      if (auto move = dyn_cast<ElementMoveOpInterface>(op))
        moved = move.getMovedElements(number);
      if (moved != MovedElements::None)
        range = uses.lookup(op.getResult(0)).range();
      if (cluster)
        range = uses.lookup(cluster.getBody().getArgument(number)).range();
      Uses &of = uses[operand.get()];
      if (!range)
        of.free = true;
      else if (moved == MovedElements::Some)
        of.some = meet(of.some, range);
      else
        of.all = meet(of.all, range);
    }
  }
}

std::vector<std::optional<IndexRange>> shale::inputRanges(func::FuncOp function) {
  std::vector<std::optional<IndexRange>> ranges(function.getNumArguments());
  if (!function.getBody().hasOneBlock())
    return ranges;
  llvm::DenseMap<Value, Uses> uses;
  addUses(function.front(), uses);
  for (auto [range, argument] : llvm::zip(ranges, function.getArguments()))
    range = uses.lookup(argument).range();
  return ranges;
}
