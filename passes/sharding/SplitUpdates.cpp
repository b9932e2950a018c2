//===- SplitUpdates.cpp - Updates of parameters that tensor axes split ----===//
#include "passes/sharding/SplitUpdates.h"
#include "dialects/nn/Ops/State.h"
#include "dialects/nn/Optimizers.h"
#include "dialects/nn/StateSharding.h"
#include <numeric>

using namespace mlir;

namespace shale {
inline namespace sharding {

TensorLayout stateLayout(Type state, nn::StateOp param, const TensorLayout &layout) {
  return TensorLayout::from(nn::getStateSharding(param, cast<RankedTensorType>(state),
                                                 layout.toAttr(param.getContext())));
}

/// Returns why an optimizer cannot update parts of a parameter, which are cut after multiples of
/// `run` elements (0: nowhere).
static std::optional<std::string> whyNotCut(const nn::Optimizer *optimizer, int64_t run) {
  int64_t block = optimizer && optimizer->stateShape ? optimizer->stateBlock : 0;
  if (block == 0 || run % block == 0)
    return std::nullopt;
  return (optimizer->name + " has one scale per " + Twine(block) +
          " elements, and parts would be cut after " + Twine(run))
      .str();
}

std::optional<std::string> whyNotSplit(nn::StateOp param, const TensorLayout &layout,
                                       dist::MeshOp mesh) {
  ArrayRef<int64_t> shape = param.getTensorType().getShape();
  int64_t run = 0, inner = 1;
  for (size_t dim = shape.size(); dim-- > 0; inner *= shape[dim]) {
    int64_t own = shape[dim];
    for (const DimAxis &axis : layout.dims[dim]) {
      own /= mesh.getSize(axis);
      run = std::gcd(run, own / axis.blocks * inner);
    }
  }
  return whyNotCut(nn::getOptimizerOf(param), run);
}

std::optional<std::string> whyNotDivided(nn::StateOp param, int64_t dim, int64_t begin,
                                         int64_t end) {
  const nn::Optimizer *optimizer = nn::getOptimizerOf(param);
  if (optimizer && optimizer->stateShape && !optimizer->stateBlock)
    return (optimizer->name + " has statistics of whole rows and columns").str();
  ArrayRef<int64_t> shape = param.getTensorType().getShape();
  int64_t inner = 1, run = 0;
  for (int64_t size : shape.drop_front(dim + 1))
    inner *= size;
  run = begin * inner;
  if (dim > 0 || end < shape[dim]) // else the end of the part is that of the last block
    run = std::gcd(run, end * inner);
  return whyNotCut(optimizer, run);
}

} // namespace sharding
} // namespace shale
