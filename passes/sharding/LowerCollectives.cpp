//===- LowerCollectives.cpp - Expresses collectives by those of the runtime ===//
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Reduce.h"
#include "dialects/nn/Sharding/Rules.h"
#include "lib/Analysis/RuntimeCollectives.h"
#include "lib/Support/OpCopies.h"
#include "passes/sharding/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_LOWERCOLLECTIVESPASS
#include "passes/sharding/Passes.h.inc"

namespace {

/// Builds what replaces the results of collectives.
struct Lowering {
  OpBuilder &builder;
  dist::MeshOp mesh;

  static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
  Value swapped(Location loc, Value value, int64_t dim) {
    return nn::swapWithFirst(builder, loc, value, dim);
  }
  Value alongFirst(Location loc, Value value, int64_t dim, int64_t times, int64_t by,
                   llvm::function_ref<Value(RankedTensorType, Value)> make);
  Value gathered(Location loc, Value part, StringRef axis, int64_t dim);
  Value sliced(Location loc, Value whole, StringRef axis, int64_t dim);

  Value lower(dist::AllReduceOp reduce);
  Value lower(dist::AllGatherOp gather);
  Value lower(dist::ReduceScatterOp scatter);
  Value lower(dist::SliceOp slice);
  Value lower(dist::AllToAllOp exchange);
};

} // namespace

/// Calls `make` with the operand of a collective, dimension `dim` first, and with the result's
/// type: that dimension has `times` / `by` as many elements. Returns the result, `dim` in its
/// place.
Value Lowering::alongFirst(Location loc, Value value, int64_t dim, int64_t times, int64_t by,
                           llvm::function_ref<Value(RankedTensorType, Value)> make) {
  Value turned = swapped(loc, value, dim);
  SmallVector<int64_t> shape(typeOf(turned).getShape());
  shape[0] = shape[0] * times / by;
  return swapped(loc, make(typeOf(turned).clone(shape), turned), dim);
}

Value Lowering::gathered(Location loc, Value part, StringRef axis, int64_t dim) {
  return alongFirst(loc, part, dim, mesh.getSize(axis), 1, [&](auto type, Value value) -> Value {
    return dist::AllGatherOp::create(builder, loc, type, value, axis, 0);
  });
}

Value Lowering::sliced(Location loc, Value whole, StringRef axis, int64_t dim) {
  return alongFirst(loc, whole, dim, 1, mesh.getSize(axis), [&](auto type, Value value) -> Value {
    return dist::SliceOp::create(builder, loc, type, value, axis, 0);
  });
}

/// A maximum over ranks is a gather of all ranks' operands and a local maximum.
Value Lowering::lower(dist::AllReduceOp reduce) {
  if (reduce.getReduction() != dist::Reduction::Max)
    return {};
  Location loc = reduce.getLoc();
  auto type = cast<RankedTensorType>(reduce.getType());
  Type element = type.getElementType();
  Value parts = nn::gatherPieces(builder, loc, {reduce.getAxis(), mesh.getSize(reduce.getAxis())},
                                 reduce.getInput());
  bool narrow = element.isBF16() || element.isF16();
  Value max = nn::ReduceOp::create(builder, loc, narrow ? type.clone(builder.getF32Type()) : type,
                                   nn::ReduceKind::Max, parts, builder.getDenseI64ArrayAttr({0}));
  return narrow ? nn::CastOp::create(builder, loc, type, max) : max;
}

Value Lowering::lower(dist::AllGatherOp gather) {
  if (gather.getDim() == 0)
    return {};
  return gathered(gather.getLoc(), gather.getInput(), gather.getAxis(), gather.getDim());
}

Value Lowering::lower(dist::ReduceScatterOp scatter) {
  if (scatter.getDim() == 0 || scatter.getReduction() != dist::Reduction::Sum)
    return {};
  return alongFirst(scatter.getLoc(), scatter.getInput(), scatter.getDim(), 1,
                    mesh.getSize(scatter.getAxis()), [&](auto type, Value value) -> Value {
                      return dist::ReduceScatterOp::create(builder, scatter.getLoc(), type,
                                                           scatter.getReduction(), value,
                                                           scatter.getAxis(), 0);
                    });
}

Value Lowering::lower(dist::SliceOp slice) {
  if (slice.getDim() == 0)
    return {};
  return sliced(slice.getLoc(), slice.getInput(), slice.getAxis(), slice.getDim());
}

/// A split moves to another dimension by a gather of the whole value, and a slice.
Value Lowering::lower(dist::AllToAllOp exchange) {
  if (findMissingCollective(exchange).empty())
    return {};
  Location loc = exchange.getLoc();
  Value whole = gathered(loc, exchange.getInput(), exchange.getAxis(), exchange.getConcat());
  return sliced(loc, whole, exchange.getAxis(), exchange.getSplit());
}

namespace {
struct LowerCollectivesPass : impl::LowerCollectivesPassBase<LowerCollectivesPass> {
  using LowerCollectivesPassBase::LowerCollectivesPassBase;
  void runOnOperation() final {
    dist::MeshOp mesh = dist::getMesh(getOperation());
    if (!mesh)
      return;
    CopyAttributes copies;
    OpBuilder builder(&getContext(), &copies);
    Lowering lowering{builder, mesh};
    SmallVector<Operation *> all;
    bool hasWarned = false;
    getOperation().walk([&](Operation *op) {
      if (isa<CollectiveOpInterface, dist::SliceOp>(op) && !op->use_empty())
        all.push_back(op);
    });
    for (Operation *op : all) {
      copies.current = op;
      builder.setInsertionPoint(op);
      Value lowered =
          llvm::TypeSwitch<Operation *, Value>(op)
              .Case<dist::AllReduceOp, dist::AllGatherOp, dist::ReduceScatterOp, dist::SliceOp,
                    dist::AllToAllOp>([&](auto collective) { return lowering.lower(collective); })
              .Default(Value());
      if (!lowered)
        continue;
      if (isa<dist::AllToAllOp>(op) && !hasWarned) {
        hasWarned = true;
        op->emitWarning("needs ")
            << op->getOperand(0).getType()
            << " split along another dimension, so each rank gathers "
            << "all of it: if the batch is not split along the examples, name their dimension with "
               "--batch-dim INPUT:D";
      }
      op->getResult(0).replaceAllUsesWith(lowered);
      op->erase();
    }
  }
};
} // namespace

} // namespace shale
