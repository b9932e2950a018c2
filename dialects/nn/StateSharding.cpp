//===- StateSharding.cpp - How optimizer state follows its parameter ------===//
#include "dialects/nn/StateSharding.h"
#include "dialects/interfaces/Blocks.h"
#include "dialects/nn/Ops/State.h"
#include "dialects/nn/Optimizers.h"

using namespace mlir;

namespace shale::nn {

dist::ShardingAttr getStateSharding(StateOp param, RankedTensorType state,
                                    dist::ShardingAttr sharding) {
  MLIRContext *context = param.getContext();
  ArrayRef<int64_t> own = state.getShape(), shape = param.getTensorType().getShape();
  const Optimizer *optimizer = getOptimizerOf(param);
  bool isOther = optimizer && optimizer->stateShape;
  if (!isOther && own == shape)
    return sharding;
  dist::MeshOp mesh = dist::getMesh(param);
  dist::ShardingAttr whole = dist::ShardingAttr::replicated(context, own.size());
  if (!isOther || !optimizer->stateBlock || !mesh || sharding.getRank() != int64_t(shape.size()) ||
      own != ArrayRef(optimizer->stateShape(shape)))
    return whole;
  // Blocks are in the order of elements: an axis splits each of the rows before its dimension.
  SmallVector<Attribute> axes;
  SmallVector<int64_t> words(own);
  int64_t rows = 1;
  for (auto [dim, size] : llvm::enumerate(shape)) {
    int64_t left = size;
    for (auto [axis, blocks] : llvm::zip_equal(sharding.getAxes(dim), sharding.getBlocks(dim))) {
      int64_t size = mesh.getSize(axis);
      if (size <= 0 || splitBlocks(words, rows * blocks, size) < 0)
        return whole; // a part would end inside of a block
      axes.push_back(dist::ShardingAttr::entryOf(StringAttr::get(context, axis), rows * blocks));
      left /= size;
    }
    rows *= left;
  }
  Builder builder(context);
  return dist::ShardingAttr::get(context, builder.getArrayAttr(builder.getArrayAttr(axes)),
                                 builder.getDictionaryAttr({}));
}

} // namespace shale::nn
