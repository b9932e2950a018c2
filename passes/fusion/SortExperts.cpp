//===- SortExperts.cpp - Rows of an expert next to each other -------------===//
//
// Rows are sorted by the number of their expert, so that each matrix multiplies rows
// that lie together. What is computed from row to row between two such matmuls is
// computed with the sorted rows, so that rows are only moved where they enter and leave.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Gather.h"
#include "dialects/nn/Ops/GroupedMatmul.h"
#include "dialects/nn/Ops/Sort.h"
#include "lib/Analysis/Rows.h"
#include "lib/Support/DeadOps.h"
#include "lib/Support/OpCopies.h"
#include "lib/Support/Remarks.h"
#include "passes/fusion/Passes.h"
#include "llvm/Support/FormatVariadic.h"

namespace shale {
#define GEN_PASS_DEF_SORTEXPERTSPASS
#include "passes/fusion/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;

namespace {

/// An order of rows by their experts.
struct Order {
  Value rows;                                         ///< the row at each sorted place
  Value ends;                                         ///< of the groups of sorted rows
  Value places;                                       ///< the sorted place of each row
  DenseMap<Value, Value> sorted;                      ///< by what they are sorted from
  DenseMap<std::pair<Value, Attribute>, Value> moved; ///< rows moved here, by phase
};

/// Rewrites the matmuls of one block, in order.
class ExpertSorter {
public:
  explicit ExpertSorter(MLIRContext *context) : b(context, &listener) {}
  /// Fails after an error.
  LogicalResult run(Block &block);

private:
  void rewrite(nn::ExpertMatmulOp op);
  void rewrite(nn::ExpertMatmulGradOp op);
  Order &orderOf(Operation *op, Value experts, int64_t count);
  Value sort(Order &order, Value value, unsigned depth = 0);
  Value sortAtSource(Order &order, Value value, unsigned depth);
  bool isSorted(const Order &order, Value value, unsigned depth = 0) const;
  Value gather(Value rows, Value places);

  CopyAttributes listener;
  OpBuilder b;
  /// By the experts of rows and the number of experts.
  std::map<std::pair<void *, int64_t>, Order> orders;
};

} // namespace

Value ExpertSorter::gather(Value rows, Value places) {
  SmallVector<int64_t> shape(nn::tensorOf(rows).getShape());
  shape[0] = nn::elements(places);
  return nn::GatherOp::create(b, listener.current->getLoc(), nn::tensorOf(rows).clone(shape), rows,
                              places, 0);
}

/// Builds the order of the rows' experts, before the first op that needs it.
Order &ExpertSorter::orderOf(Operation *op, Value experts, int64_t count) {
  Order &order = orders[{experts.getAsOpaquePointer(), count}];
  listener.current = op;
  b.setInsertionPoint(op);
  if (order.rows)
    return order;
  Location loc = op->getLoc();
  int64_t rows = nn::elements(experts);
  emitDecision(loc, "sort-experts",
               llvm::formatv("{0} rows are sorted by their {1} experts", rows, count).str());
  auto list = [&](int64_t size) { return RankedTensorType::get({size}, b.getI32Type()); };
  auto sort = nn::ArgsortOp::create(b, loc, list(rows), list(count + 1), experts,
                                    b.getI64IntegerAttr(count));
  order.rows = sort.getOrder();
  order.ends = nn::SliceOp::create(b, loc, list(count), sort.getStarts(), ArrayRef<int64_t>{1},
                                   ArrayRef<int64_t>{count + 1}, ArrayRef<int64_t>{1});
  order.places = nn::ArgsortOp::create(b, loc, list(rows), list(rows + 1), order.rows,
                                       b.getI64IntegerAttr(rows))
                     .getOrder();
  return order;
}

/// Whether a value is computed, row by row, from values that are sorted.
bool ExpertSorter::isSorted(const Order &order, Value value, unsigned depth) const {
  constexpr unsigned kDepth = 16;
  if (order.sorted.contains(value))
    return true;
  auto result = dyn_cast<OpResult>(value);
  if (!result || depth == kDepth)
    return false;
  RowRelation relation = relateRows(result, 0);
  return relation.use == RowUse::Each &&
         llvm::any_of(
             llvm::zip(result.getOwner()->getOperands(), relation.operands), [&](auto pair) {
               return std::get<1>(pair) == 0 && isSorted(order, std::get<0>(pair), depth + 1);
             });
}

/// Returns the operand and the number of rows that a reshape of a broadcast makes of each row; null
/// for other values.
static std::pair<Value, int64_t> repeatedRows(Value value) {
  auto reshape = value.getDefiningOp<nn::ReshapeOp>();
  auto broadcast = reshape ? reshape.getInput().getDefiningOp<nn::BroadcastOp>() : nullptr;
  if (!broadcast)
    return {};
  ArrayRef<int64_t> wide = nn::tensorOf(broadcast.getResult()).getShape(),
                    flat = nn::tensorOf(value).getShape(),
                    row = nn::tensorOf(broadcast.getInput()).getShape();
  // [T, D..] -> [T, K, D..] -> [T K, D..]
  if (wide.size() != flat.size() + 1 || wide[0] * wide[1] != flat[0] ||
      wide.drop_front(2) != flat.drop_front() || row.size() != flat.size() || row[0] != wide[0] ||
      row.drop_front() != flat.drop_front())
    return {};
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(1, wide.size()));
  dims.front() = 0;
  return broadcast.getDims() == ArrayRef<int64_t>(dims) ? std::pair(broadcast.getInput(), wide[1])
                                                        : std::pair(Value(), int64_t(0));
}

/// Computes a value with sorted rows, or moves its rows.
Value ExpertSorter::sortAtSource(Order &order, Value value, unsigned depth) {
  if (isSameForRows(value, 0))
    return value;
  if (auto [rows, times] = repeatedRows(value); rows) {
    Location loc = listener.current->getLoc();
    RankedTensorType type = nn::tensorOf(order.rows);
    Value each = nn::splat(b, loc, type, times);
    return gather(rows, nn::DivOp::create(b, loc, type, order.rows, each));
  }
  auto result = dyn_cast<OpResult>(value);
  RowRelation relation = result ? relateRows(result, 0) : RowRelation();
  Operation *op = result ? result.getOwner() : nullptr;
  auto isMatmul = [](Operation *user) {
    return isa<nn::ExpertMatmulOp, nn::ExpertMatmulGradOp>(user);
  };
  bool isOnlySorted = value.hasOneUse() || llvm::all_of(value.getUsers(), isMatmul);
  constexpr unsigned kDepth = 64;
  if (relation.use != RowUse::Each || depth == kDepth || op->getNumResults() != 1 ||
      op->getNumRegions() != 0 ||
      llvm::any_of(relation.operands, [](int64_t dim) { return dim > 0; }) ||
      llvm::all_of(relation.operands, [](int64_t dim) { return dim < 0; }) ||
      (!isOnlySorted && !isSorted(order, value)))
    return gather(value, order.rows);
  SmallVector<Value> operands;
  for (auto [operand, dim] : llvm::zip(op->getOperands(), relation.operands))
    operands.push_back(dim < 0 ? operand : sort(order, operand, depth + 1));
  Operation *made = cloneAs(b, op, operands, op->getResultTypes());
  if (Attribute phase = nn::phaseOf(listener.current))
    made->setAttr(nn::kPhaseAttr, phase);
  return made->getResult(0);
}

Value ExpertSorter::sort(Order &order, Value value, unsigned depth) {
  if (auto it = order.sorted.find(value); it != order.sorted.end())
    return it->second;
  // Each phase moves its rows itself, so that the forward pass does not keep them for the backward
  // pass.
  std::pair<Value, Attribute> key{value, nn::phaseOf(listener.current)};
  if (auto it = order.moved.find(key); it != order.moved.end())
    return it->second;
  bool isComputed = isSorted(order, value);
  Value sorted = sortAtSource(order, value, depth);
  (isComputed ? order.sorted[value] : order.moved[key]) = sorted;
  return sorted;
}

void ExpertSorter::rewrite(nn::ExpertMatmulOp op) {
  Order &order = orderOf(op, op.getExperts(), nn::tensorOf(op.getRhs()).getDimSize(0));
  Value sorted =
      nn::GroupedMatmulOp::create(b, op.getLoc(), op.getType(), sort(order, op.getLhs()),
                                  op.getRhs(), order.ends, op.getTransposeRhs(), op.getOfAttr());
  Value plain = gather(sorted, order.places);
  order.sorted[plain] = sorted;
  op.replaceAllUsesWith(plain);
  op.erase();
}

void ExpertSorter::rewrite(nn::ExpertMatmulGradOp op) {
  Order &order = orderOf(op, op.getExperts(), nn::tensorOf(op.getResult()).getDimSize(0));
  Value lhs = sort(order, op.getLhs()), rhs = sort(order, op.getRhs());
  Value sum = nn::GroupedMatmulGradOp::create(b, op.getLoc(), op.getType(), lhs, rhs, order.ends,
                                              op.getOfAttr());
  op.replaceAllUsesWith(sum);
  op.erase();
}

/// Checks that all rows may have any of the experts: only then groups are the experts.
template <typename OpT> static LogicalResult verifyOnePart(OpT op) {
  return op.getParts() == 1 ? success()
                            : op.emitOpError("has ") << op.getParts()
                                                     << " parts, which only ranks of an axis of "
                                                        "experts can have: run --shale-partition";
}

LogicalResult ExpertSorter::run(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto matmul = dyn_cast<nn::ExpertMatmulOp>(op)) {
      if (failed(verifyOnePart(matmul)))
        return failure();
      rewrite(matmul);
    } else if (auto gradient = dyn_cast<nn::ExpertMatmulGradOp>(op)) {
      if (failed(verifyOnePart(gradient)))
        return failure();
      rewrite(gradient);
    }
  }
  if (!orders.empty())
    eraseDeadOps(block);
  return success();
}

namespace {
struct SortExpertsPass : shale::impl::SortExpertsPassBase<SortExpertsPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Block &block : function.getBody())
        if (failed(ExpertSorter(&getContext()).run(block)))
          return signalPassFailure();
  }
};
} // namespace
