//===- RecoverExperts.cpp - Matmuls of rows with the matrices of experts --===//
//
// Models sort the rows by expert, multiply groups of rows, and put the rows back. What
// is computed with sorted rows is computed here with the rows as they were, op by op:
// an op that works on each row gives the same rows in another order, and a sum over the
// rows does not depend on it. Where rows are put back, the sort is gone.
//
//===----------------------------------------------------------------------===//
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Embedding.h"
#include "dialects/nn/Ops/GroupedMatmul.h"
#include "dialects/nn/Ops/Sort.h"
#include "lib/Analysis/Rows.h"
#include "lib/Folding/Fold.h"
#include "lib/Support/DeadOps.h"
#include "passes/import/DenseExperts.h"
#include "passes/import/ExpertCounts.h"
#include "passes/import/ExpertLookups.h"
#include "passes/import/Matchers.h"
#include "passes/import/Passes.h"

namespace shale {
#define GEN_PASS_DEF_RECOVEREXPERTSPASS
#include "passes/import/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;
using namespace shale::recover;

namespace {

/// A value whose rows are in the order of a sort.
struct SortedRows {
  nn::TopKOp sort;
  Value plain; ///< the same with its rows as they were
  int64_t dim; ///< of the rows
};

/// Finds the sorted rows of one block.
class ExpertFinder {
public:
  explicit ExpertFinder(MLIRContext *context) : b(context) {}
  void run(Block &block);

private:
  void visit(Operation *op);
  void visitSort(nn::TopKOp sort);
  bool putBack(Operation *op);
  bool multiply(nn::GroupedMatmulOp op);
  bool multiply(nn::GroupedMatmulGradOp op);
  void convert(Operation *op);
  /// Returns the sorted rows along the first dimension that a value is; none for others.
  std::optional<SortedRows> rowsOf(Value value) const;
  bool areEnds(Value ends, nn::TopKOp sort);
  /// Creates an op of other operands; a constant if they are.
  Value createLike(Operation *op, ValueRange operands);

  OpBuilder b;
  DenseMap<Value, SortedRows> sorted;
  /// By the places of rows after a sort: the sort.
  DenseMap<Value, nn::TopKOp> places;
  DenseMap<std::pair<Value, Value>, bool> proved; ///< ends and experts
  SmallVector<Operation *> groups;                ///< converted matmuls
};

} // namespace

static bool sortsOneLine(nn::TopKOp sort) {
  RankedTensorType input = tensor(sort.getInput());
  return sort.getSmallest() && input.getRank() == 1 && isa<IntegerType>(input.getElementType()) &&
         tensor(sort.getIndices()).getShape() == input.getShape();
}

Value ExpertFinder::createLike(Operation *op, ValueRange operands) {
  if (Value simple = simplifyIndices(b, op, operands))
    return simple;
  OperationState state(op->getLoc(), op->getName(), operands, op->getResultTypes(), op->getAttrs());
  Operation *made = b.create(state);
  SmallVector<DenseElementsAttr> constants = llvm::map_to_vector(operands, elementsOf);
  Value value;
  if (!constants.empty() && !llvm::is_contained(constants, DenseElementsAttr())) {
    if (DenseElementsAttr folded = folding::fold(made, constants))
      value = nn::ConstantOp::create(b, op->getLoc(), folded);
  } else {
    value = repeatRows(b, made);
  }
  if (!value)
    return made->getResult(0);
  made->erase();
  return value;
}

std::optional<SortedRows> ExpertFinder::rowsOf(Value value) const {
  auto it = sorted.find(value);
  return it == sorted.end() || it->second.dim != 0 ? std::nullopt : std::optional(it->second);
}

void ExpertFinder::visitSort(nn::TopKOp sort) {
  Value source = peelIndices(sort.getInput());
  auto known = sorted.find(source);
  if (known != sorted.end() && source == known->second.sort.getIndices()) {
    places[sort.getIndices()] = known->second.sort;
    return;
  }
  RankedTensorType type = tensor(sort.getIndices());
  b.setInsertionPoint(sort);
  sorted[sort.getIndices()] = {sort, nn::IotaOp::create(b, sort.getLoc(), type, 0), 0};
  sorted[sort.getValues()] = {sort, sort.getInput(), 0};
}

/// Replaces a lookup of sorted rows by the places that the sort gave them.
bool ExpertFinder::putBack(Operation *op) {
  std::optional<Lookup> lookup = Lookup::of(op);
  if (!lookup || lookup->sums)
    return false;
  auto place = places.find(peelIndices(lookup->indices));
  std::optional<SortedRows> rows = rowsOf(lookup->table);
  if (place == places.end() || !rows || rows->sort != place->second)
    return false;
  Value plain = rows->plain;
  if (plain.getType() != op->getResult(0).getType()) {
    plain = nn::ReshapeOp::create(b, op->getLoc(), op->getResult(0).getType(), plain);
    inherit(op, plain.getDefiningOp());
  }
  op->getResult(0).replaceAllUsesWith(plain);
  return true;
}

bool ExpertFinder::areEnds(Value ends, nn::TopKOp sort) {
  Value experts = sort.getInput();
  std::optional<int64_t> bound = boundOf(experts);
  if (!bound || *bound > tensor(ends).getDimSize(0))
    return false;
  auto [it, fresh] = proved.try_emplace({ends, experts}, false);
  if (fresh)
    it->second = areEndsOf(ends, experts);
  return it->second;
}

bool ExpertFinder::multiply(nn::GroupedMatmulOp op) {
  std::optional<SortedRows> rows = rowsOf(op.getLhs());
  if (!rows || !areEnds(op.getEnds(), rows->sort))
    return false;
  auto made = nn::ExpertMatmulOp::create(b, op.getLoc(), op.getType(), rows->plain, op.getRhs(),
                                         rows->sort.getInput(), op.getTransposeRhs(), /*parts=*/1,
                                         op.getOfAttr());
  inherit(op, made);
  sorted[op.getResult()] = {rows->sort, made.getResult(), 0};
  groups.push_back(op);
  return true;
}

bool ExpertFinder::multiply(nn::GroupedMatmulGradOp op) {
  std::optional<SortedRows> lhs = rowsOf(op.getLhs()), rhs = rowsOf(op.getRhs());
  if (!lhs || !rhs || lhs->sort != rhs->sort || !areEnds(op.getEnds(), lhs->sort))
    return false;
  auto made = nn::ExpertMatmulGradOp::create(b, op.getLoc(), op.getType(), lhs->plain, rhs->plain,
                                             lhs->sort.getInput(), /*parts=*/1, op.getOfAttr());
  inherit(op, made);
  op.replaceAllUsesWith(made.getResult());
  return true;
}

/// Computes an op with the rows as they were, if all its rows are of one sort.
void ExpertFinder::convert(Operation *op) {
  RowRelation relation;
  SortedRows rows;
  for (OpOperand &operand : op->getOpOperands())
    if (auto it = sorted.find(operand.get()); it != sorted.end()) {
      rows = it->second;
      relation = relateRows(operand, rows.dim);
      if (relation.use != RowUse::None)
        break;
    }
  if (relation.use == RowUse::None || op->getNumResults() != 1 || op->getNumRegions() != 0)
    return;
  SmallVector<Value> operands;
  for (auto [operand, dim] : llvm::zip(op->getOperands(), relation.operands)) {
    auto it = sorted.find(operand);
    bool same = it != sorted.end() && it->second.sort == rows.sort && it->second.dim == dim;
    if (dim >= 0 && !same && !isSameForRows(operand, dim))
      return;
    operands.push_back(dim >= 0 && same ? it->second.plain : operand);
  }
  Value plain = createLike(op, operands);
  if (relation.use == RowUse::Sum)
    op->getResult(0).replaceAllUsesWith(plain);
  else
    sorted[op->getResult(0)] = {rows.sort, plain, relation.results[0]};
}

void ExpertFinder::visit(Operation *op) {
  if (auto sort = dyn_cast<nn::TopKOp>(op)) {
    if (sortsOneLine(sort))
      visitSort(sort);
    return;
  }
  b.setInsertionPoint(op);
  if (putBack(op))
    return;
  if (auto matmul = dyn_cast<nn::GroupedMatmulOp>(op); matmul && multiply(matmul))
    return;
  if (auto matmul = dyn_cast<nn::GroupedMatmulGradOp>(op); matmul && multiply(matmul))
    return;
  convert(op);
}

void ExpertFinder::run(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block))
    visit(&op);
  // Other ops may read the sorted result of a matmul: they get the rows in the order of the sort.
  for (Operation *op : groups) {
    SortedRows rows = sorted.lookup(op->getResult(0));
    b.setInsertionPoint(op);
    auto again = nn::EmbeddingOp::create(b, op->getLoc(), op->getResult(0).getType(), rows.plain,
                                         rows.sort.getIndices(), IntegerAttr());
    inherit(op, again);
    op->getResult(0).replaceAllUsesWith(again);
  }
  eraseDeadOps(block);
}

namespace {
struct RecoverExpertsPass : shale::impl::RecoverExpertsPassBase<RecoverExpertsPass> {
  void runOnOperation() override {
    getOperation()->walk([&](func::FuncOp function) {
      if (function.isExternal())
        return;
      Block &block = function.getBody().front();
      bool isLookedUp = multiplyLookedUp(block);
      if (multiplyChosen(block) || isLookedUp)
        eraseDeadOps(block);
      if (!block.getOps<nn::GroupedMatmulOp>().empty())
        ExpertFinder(&getContext()).run(block);
    });
  }
};
} // namespace
