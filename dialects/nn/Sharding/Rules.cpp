//===- Rules.cpp - Helpers to write sharding rules and local forms --------===//
#include "dialects/nn/Sharding/Rules.h"
#include "dialects/dist/Dist.h"
#include "dialects/interfaces/Blocks.h"
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

SmallVector<PieceDim> nn::pieceDims(ArrayRef<SplitAxis> axes, int64_t size) {
  SmallVector<PieceDim> dims{{size, "", 1}};
  for (const SplitAxis &axis : axes) {
    SmallVector<int64_t> local;
    SmallVector<size_t> places;
    for (auto [place, dim] : llvm::enumerate(dims))
      if (dim.axis.empty()) {
        local.push_back(dim.size);
        places.push_back(place);
      }
    int64_t at = splitBlocks(local, axis.blocks, axis.size);
    assert(at >= 0 && "canSplit() has checked this");
    bool isCut = local.size() > places.size();
    size_t place = places[at - isCut];
    dims[place].size = local[at];
    dims.insert(dims.begin() + place, {axis.size, axis.name, 1});
    if (isCut)
      dims.insert(dims.begin() + place, {local[at - 1], "", 1});
  }
  int64_t stride = 1;
  for (PieceDim &dim : llvm::reverse(dims)) {
    dim.stride = stride;
    stride *= dim.size;
  }
  return dims;
}

Value nn::reshape(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getShape() == shape ? value
                                  : ReshapeOp::create(builder, loc, type.clone(shape), value);
}

Value nn::inBlocks(OpBuilder &builder, Location loc, Value value, int64_t dim, int64_t blocks,
                   llvm::function_ref<Value(Value, int64_t)> make) {
  if (blocks == 1)
    return make(value, dim);
  SmallVector<int64_t> shape(shapeOf(value));
  shape[dim] /= blocks;
  shape.insert(shape.begin() + dim, blocks);
  value = make(reshape(builder, loc, value, shape), dim + 1);
  shape.assign(shapeOf(value).begin(), shapeOf(value).end());
  shape.erase(shape.begin() + dim);
  shape[dim] *= blocks;
  return reshape(builder, loc, value, shape);
}

Value nn::pieceOffset(OpBuilder &builder, Location loc, ArrayRef<SplitAxis> axes, int64_t size,
                      RankedTensorType type) {
  auto scalar = RankedTensorType::get({}, builder.getI64Type());
  Value index;
  for (const PieceDim &dim : pieceDims(axes, size * pieces(axes)))
    if (!dim.axis.empty()) {
      Value coordinate = dist::CoordinateOp::create(builder, loc, scalar, dim.axis);
      index = addOffset(
          builder, loc, index,
          MulOp::create(builder, loc, coordinate, splat(builder, loc, scalar, dim.stride)));
    }
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

Value nn::localIndices(OpBuilder &builder, Location loc, Value indices, ArrayRef<SplitAxis> axes,
                       int64_t size) {
  if (axes.empty())
    return indices;
  return SubOp::create(builder, loc, indices,
                       pieceOffset(builder, loc, axes, size, tensorOf(indices)));
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
