//===- SortLookups.cpp - Sorts the indices of lookups' gradients ----------===//
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Embedding.h"
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Ops/Reduce.h"
#include "dialects/nn/Ops/Sort.h"
#include "lib/Support/OpCopies.h"
#include "lib/Support/Remarks.h"
#include "lib/Target/Target.h"
#include "passes/fusion/Passes.h"
#include "llvm/Support/FormatVariadic.h"

namespace shale {
#define GEN_PASS_DEF_SORTLOOKUPSPASS
#include "passes/fusion/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;

namespace {

/// Rewrites the gradients of one block, in order.
class LookupSorter {
public:
  LookupSorter(const Target &target, MLIRContext *context)
      : target(target), b(context, &listener) {}
  void run(Block &block);

private:
  void rewrite(nn::EmbeddingGradOp op);
  nn::ArgsortOp sorted(nn::EmbeddingGradOp op, int64_t rows);
  Value sumPieces(Location loc, Value rows, Value order, Type element);
  void replaceSquares(OpOperand &use, Value squares);

  const Target &target;
  CopyAttributes listener;
  OpBuilder b;
  /// Orders by indices, number of rows and phase.
  DenseMap<std::tuple<Value, int64_t, Attribute>, nn::ArgsortOp> orders;
};

} // namespace

nn::ArgsortOp LookupSorter::sorted(nn::EmbeddingGradOp op, int64_t rows) {
  nn::ArgsortOp &order = orders[{op.getIndices(), rows, nn::phaseOf(op)}];
  if (!order) {
    auto list = [&](int64_t size) { return RankedTensorType::get({size}, b.getI32Type()); };
    order = nn::ArgsortOp::create(b, op.getLoc(), list(nn::elements(op.getIndices())),
                                  list(rows + 1), op.getIndices(), b.getI64IntegerAttr(rows));
  }
  return order;
}

/// Returns the sums of whole pieces of the rows in their order, in `element`.
Value LookupSorter::sumPieces(Location loc, Value rows, Value order, Type element) {
  auto type = cast<RankedTensorType>(rows.getType());
  int64_t width = type.getDimSize(1), pieces = type.getDimSize(0) / nn::kSortedPiece;
  int64_t count = pieces * nn::kSortedPiece;
  if (count != type.getDimSize(0)) {
    auto part = RankedTensorType::get({count}, b.getI32Type());
    order = nn::SliceOp::create(b, loc, part, order, ArrayRef<int64_t>{0}, ArrayRef<int64_t>{count},
                                ArrayRef<int64_t>{1});
  }
  Value terms =
      nn::EmbeddingOp::create(b, loc, type.clone({count, width}), rows, order, IntegerAttr());
  if (type.getElementType() != element)
    terms =
        nn::CastOp::create(b, loc, cast<RankedTensorType>(terms.getType()).clone(element), terms);
  auto parted = RankedTensorType::get({pieces, nn::kSortedPiece, width}, element);
  terms = nn::ReshapeOp::create(b, loc, parted, terms);
  return nn::ReduceOp::create(b, loc, RankedTensorType::get({pieces, width}, element),
                              nn::ReduceKind::Sum, terms, ArrayRef<int64_t>{1});
}

/// Returns an operand of a sum of squares that has all elements of the value and else only zeros,
/// or null. Sums over ranks or micro-batches, and packs of several gradients, have other elements.
static OpOperand *squaredUse(Value value) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto sum = dyn_cast<nn::SumSquaresOp>(user)) {
      if (sum.getType().getElementType() == getElementTypeOrSelf(value))
        return &use;
    } else if (isa<nn::ReshapeOp, dist::UnitPackOp>(user) && user->getNumOperands() == 1) {
      if (OpOperand *found = squaredUse(user->getResult(0)))
        return found;
    }
  }
  return nullptr;
}

/// Replaces an operand of a sum of squares by the sum of `squares`, which are those of its rows.
void LookupSorter::replaceSquares(OpOperand &use, Value squares) {
  auto sum = cast<nn::SumSquaresOp>(use.getOwner());
  emitDecision(
      sum.getLoc(), "sort-lookups",
      llvm::formatv("the squares of {0} rows are summed where the rows are", nn::elements(squares))
          .str());
  listener.current = sum;
  b.setInsertionPoint(sum);
  Value total = nn::ReduceOp::create(b, sum.getLoc(), sum.getType(), nn::ReduceKind::Sum, squares,
                                     ArrayRef<int64_t>{0});
  SmallVector<Value> others(sum.getInputs());
  others.erase(others.begin() + use.getOperandNumber());
  if (!others.empty()) {
    Value rest = nn::SumSquaresOp::create(b, sum.getLoc(), sum.getType(), others);
    total = nn::AddOp::create(b, sum.getLoc(), sum.getType(), total, rest);
  }
  sum.replaceAllUsesWith(total);
  sum.erase();
}

void LookupSorter::rewrite(nn::EmbeddingGradOp op) {
  auto table = cast<RankedTensorType>(op.getType());
  auto grad = cast<RankedTensorType>(op.getGrad().getType());
  int64_t rows = table.getDimSize(0), count = nn::elements(op.getIndices());
  if (!target.sortsLookups(rows, count))
    return;
  emitDecision(op.getLoc(), "sort-lookups",
               llvm::formatv("{0} indices of a table of {1} rows are sorted, and their gradients "
                             "summed in {2} pieces of {3}",
                             count, rows, count / nn::kSortedPiece, nn::kSortedPiece)
                   .str());
  listener.current = op;
  b.setInsertionPoint(op);
  Location loc = op.getLoc();
  nn::ArgsortOp order = sorted(op, rows);
  Value terms = op.getGrad();
  RankedTensorType flat = grad.clone({count, table.getDimSize(1)});
  if (flat != grad)
    terms = nn::ReshapeOp::create(b, loc, flat, terms);
  Value pieces = sumPieces(loc, terms, order.getOrder(), table.getElementType());
  Type squares = squaredUse(op.getResult()) ? table.clone(ArrayRef{rows}) : Type();
  auto sums = nn::SortedEmbeddingGradOp::create(b, loc, table, squares, order.getOrder(),
                                                order.getStarts(), terms, pieces);
  op.replaceAllUsesWith(sums.getResult());
  op.erase();
  while (OpOperand *use = squaredUse(sums.getResult()))
    replaceSquares(*use, sums.getSquares());
}

void LookupSorter::run(Block &block) {
  for (auto gradient : llvm::to_vector(block.getOps<nn::EmbeddingGradOp>()))
    rewrite(gradient);
}

namespace {
struct SortLookupsPass : shale::impl::SortLookupsPassBase<SortLookupsPass> {
  using SortLookupsPassBase::SortLookupsPassBase;
  void runOnOperation() override {
    const Target *target = targetOf(getOperation());
    if (!target)
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Block &block : function.getBody())
        LookupSorter(*target, &getContext()).run(block);
  }
};
} // namespace
