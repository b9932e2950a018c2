//===- Rules.cpp - Helpers to write sharding rules and local forms --------===//
#include "dialects/nn/Sharding/Rules.h"
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

int64_t nn::pieces(ArrayRef<SplitAxis> axes) {
  int64_t count = 1;
  for (const SplitAxis &axis : axes)
    count *= axis.size;
  return count;
}

Value nn::pieceIndex(OpBuilder &builder, Location loc, ArrayRef<SplitAxis> axes) {
  auto type = RankedTensorType::get({}, builder.getI64Type());
  Value index;
  for (const SplitAxis &axis : axes) {
    Value coordinate = dist::CoordinateOp::create(builder, loc, type, axis.name);
    if (index) {
      Value size = splat(builder, loc, type, axis.size);
      index = MulOp::create(builder, loc, index, size);
      index = AddOp::create(builder, loc, index, coordinate);
    } else {
      index = coordinate;
    }
  }
  return index ? index : splat(builder, loc, type, 0);
}

Value nn::pieceOffset(OpBuilder &builder, Location loc, ArrayRef<SplitAxis> axes, int64_t size,
                      RankedTensorType type) {
  Value index = pieceIndex(builder, loc, axes);
  auto scalar = cast<RankedTensorType>(index.getType());
  index = MulOp::create(builder, loc, index, splat(builder, loc, scalar, size));
  auto element = RankedTensorType::get({}, type.getElementType());
  if (element != scalar)
    index = CastOp::create(builder, loc, element, index);
  if (type.getRank() == 0)
    return index;
  return BroadcastOp::create(builder, loc, type, index, builder.getDenseI64ArrayAttr({}));
}

Value shale::nn::addOffset(OpBuilder &builder, Location loc, Value offset, Value other) {
  return offset ? Value(AddOp::create(builder, loc, offset, other)) : other;
}

Value nn::swapWithFirst(OpBuilder &builder, Location loc, Value value, int64_t dim) {
  if (dim == 0)
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> perm = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  SmallVector<int64_t> shape(type.getShape());
  std::swap(perm[0], perm[dim]);
  std::swap(shape[0], shape[dim]);
  return TransposeOp::create(builder, loc, type.clone(shape), value, perm);
}

Value nn::gatherPieces(OpBuilder &builder, Location loc, SplitAxis axis, Value value) {
  auto typeOf = [&](int64_t pieces) {
    SmallVector<int64_t> shape{pieces};
    llvm::append_range(shape, shapeOf(value));
    return RankedTensorType::get(shape, cast<RankedTensorType>(value.getType()).getElementType());
  };
  Value piece = ReshapeOp::create(builder, loc, typeOf(1), value);
  return dist::AllGatherOp::create(builder, loc, typeOf(axis.size), piece, axis.name, /*dim=*/0);
}
