//===- SplitReductions.cpp - Reductions in two stages ---------------------===//
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Support/Remarks.h"
#include "lib/Target/Target.h"
#include "passes/fusion/Groups.h"
#include "passes/fusion/Passes.h"
#include "llvm/Support/FormatVariadic.h"

namespace shale {
#define GEN_PASS_DEF_SPLITREDUCTIONSPASS
#include "passes/fusion/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;

namespace {

enum class Side { Leading, Trailing, Neither };

/// Returns on which side of the operand's dimensions the reduced ones are.
Side sideOf(nn::ReduceOp op) {
  int64_t rank = cast<RankedTensorType>(op.getInput().getType()).getRank();
  int64_t count = op.getDims().size();
  auto startsAt = [&](int64_t first) {
    return llvm::all_of(llvm::enumerate(op.getDims()),
                        [&](auto dim) { return dim.value() == first + int64_t(dim.index()); });
  };
  return startsAt(rank - count) ? Side::Trailing : startsAt(0) ? Side::Leading : Side::Neither;
}

/// Replaces the reduction by two, the first of `parts` parts.
void split(nn::ReduceOp op, Side side, int64_t parts) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  auto result = cast<RankedTensorType>(op.getType());
  auto input = cast<RankedTensorType>(op.getInput().getType());
  int64_t results = result.getNumElements(), each = input.getNumElements() / results;
  bool trailing = side == Side::Trailing;
  SmallVector<int64_t> kept(result.getShape()), shape = kept, sums = kept;
  int64_t place = trailing ? kept.size() : 0;
  shape.insert(shape.begin() + place, {parts, each / parts});
  sums.insert(sums.begin() + place, parts);
  DictionaryAttr origin = op->getDiscardableAttrDictionary();
  auto parted = nn::ReshapeOp::create(b, loc, input.clone(shape), op.getInput());
  auto first = nn::ReduceOp::create(b, loc, result.clone(sums), op.getKind(), parted.getResult(),
                                    ArrayRef<int64_t>{place + 1});
  auto second = nn::ReduceOp::create(b, loc, result, op.getKind(), first.getResult(),
                                     ArrayRef<int64_t>{place});
  for (Operation *made : {parted.getOperation(), first.getOperation(), second.getOperation()})
    made->setDiscardableAttrs(origin);
  op.replaceAllUsesWith(second.getResult());
  op.erase();
}

struct SplitReductionsPass : shale::impl::SplitReductionsPassBase<SplitReductionsPass> {
  using SplitReductionsPassBase::SplitReductionsPassBase;

  void runOnOperation() override {
    const Target *target = targetOf(getOperation());
    if (!target)
      return signalPassFailure();
    SmallVector<nn::ReduceOp> all;
    getOperation().walk([&](nn::ReduceOp op) { all.push_back(op); });
    for (nn::ReduceOp op : all) {
      int64_t results = nn::elements(op.getResult());
      Side side = sideOf(op);
      if (results == 0 || side == Side::Neither)
        continue;
      int64_t each = nn::elements(op.getInput()) / results;
      int64_t wanted = target->reductionParts(results, each, side == Side::Trailing);
      int64_t parts = divisorNear(each, wanted);
      if (parts == 1)
        continue;
      emitDecision(op.getLoc(), "split-reductions",
                   llvm::formatv("{0} elements to each of {1} are reduced in {2} parts", each,
                                 results, parts)
                       .str());
      split(op, side, parts);
    }
  }
};

} // namespace
