//===- ColumnSums.cpp - Sums of columns in kernels of rows ----------------===//
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Reduce.h"
#include "passes/fusion/Groups.h"

using namespace mlir;
using namespace shale;

int64_t shale::divisorNear(int64_t each, int64_t wanted) {
  if (wanted < 2)
    return 1;
  for (int64_t parts = wanted; parts <= 2 * wanted && parts < each; ++parts)
    if (each % parts == 0)
      return parts;
  for (int64_t parts = wanted; parts > 1 && 4 * parts >= wanted; --parts)
    if (each % parts == 0)
      return parts;
  return 1;
}

/// Returns the only reader of the sums of parts, if it sums the parts.
static nn::ReduceOp secondStage(nn::ReduceOp first) {
  if (!first.getResult().hasOneUse())
    return {};
  auto second = dyn_cast<nn::ReduceOp>(*first.getResult().user_begin());
  bool sums = second && second.getKind() == nn::ReduceKind::Sum &&
              second.getDims() == ArrayRef<int64_t>{0} && nn::phaseOf(second) == nn::phaseOf(first);
  return sums ? second : nn::ReduceOp();
}

std::optional<nn::ColumnReduction> shale::columnSumOf(Operation *op, const Target &target) {
  auto reduce = dyn_cast<nn::ReduceOp>(op);
  if (!reduce || reduce.getKind() != nn::ReduceKind::Sum ||
      reduce.getDims() != ArrayRef<int64_t>{1} || !reduce.getType().getElementType().isF32() ||
      !reduce.getInput().getType().getElementType().isF32() || !secondStage(reduce))
    return std::nullopt;
  std::optional<nn::ColumnReduction> sizes = nn::matchColumns(reduce);
  if (!sizes || sizes->inner == 0)
    return std::nullopt;
  int64_t rows = sizes->outer * sizes->each;
  if (divisorNear(rows, target.columnSumParts(rows, sizes->inner, 1)) == 1)
    return std::nullopt;
  return sizes;
}

/// Gives the first of two stages of a sum another number of parts. The type of the second does not
/// depend on it.
static void setParts(FusionGroup &group, nn::ReduceOp first, int64_t rows, int64_t parts) {
  SmallVector<int64_t> sums(first.getType().getShape());
  sums[0] = parts;
  SmallVector<int64_t> shape = sums;
  shape.insert(shape.begin() + 1, rows / parts);
  OpBuilder b(first);
  auto old = first.getInput().getDefiningOp<nn::ReshapeOp>();
  auto parted = nn::ReshapeOp::create(b, first.getLoc(), first.getType().clone(shape),
                                      old ? old.getInput() : first.getInput());
  parted->setDiscardableAttrs(first->getDiscardableAttrDictionary());
  first.getInputMutable().assign(parted);
  first.getResult().setType(first.getType().clone(sums));
  group.ops.insert(llvm::find(group.ops, first.getOperation()), parted);
  if (old && old->use_empty()) {
    group.ops.erase(llvm::find(group.ops, old.getOperation()));
    old.erase();
  }
}

void shale::chooseParts(FusionGroup &group, const Target &target) {
  if (group.sums.empty())
    return;
  bool onlySums = llvm::all_of(group.ops, [&](Operation *op) {
    return llvm::is_contained(group.sums, op) || llvm::all_of(op->getUsers(), [&](Operation *user) {
             return llvm::is_contained(group.ops, user);
           });
  });
  bool reducesRows = llvm::any_of(group.ops, [](Operation *op) {
    return op->getNumOperands() > 0 && accessOf(op, 0) == Access::Reduces;
  });
  // Columns alone have a schedule of their own, for which the parts were chosen.
  if (onlySums && !reducesRows)
    return;
  int64_t parts =
      divisorNear(group.rows, target.columnSumParts(group.rows, group.columns, group.sums.size()));
  for (Operation *op : group.sums)
    setParts(group, cast<nn::ReduceOp>(op), group.rows, parts);
}
