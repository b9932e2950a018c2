//===- SplitState.cpp - States whose value is split between ranks ---------===//
#include "lib/Interpreter/Dist/SplitState.h"
#include "dialects/nn/Ops/State.h"
#include <numeric>

using namespace mlir;

namespace shale::interp {

Tensor partOf(Tensor whole, dist::ShardingAttr layout, dist::MeshOp mesh, int64_t rank) {
  for (int64_t dim = 0; layout && dim < layout.getRank(); ++dim)
    for (auto [axis, blocks] : llvm::zip_equal(layout.getAxes(dim), layout.getBlocks(dim))) {
      SmallVector<int64_t> shape(whole.shape()), inBlocks(shape);
      int64_t length = shape[dim] / blocks / mesh.getSize(axis);
      inBlocks[dim] = blocks;
      inBlocks.insert(inBlocks.begin() + dim + 1, shape[dim] / blocks);
      shape[dim] = blocks * length;
      whole = whole.reshaped(inBlocks)
                  .slice(dim + 1, mesh.getCoordinate(rank, axis) * length, length)
                  .reshaped(shape);
    }
  return whole;
}

FailureOr<Tensor> joinParts(nn::StateOp op, StringRef name, ArrayRef<int64_t> shape,
                            dist::ShardingAttr layout, dist::MeshOp mesh, ArrayRef<Tensor> perRank,
                            llvm::function_ref<int64_t(int64_t rank, int64_t i)> index) {
  // Positions of a part's elements in the whole value: the part of a tensor that counts up.
  Tensor places(Element::I64, shape);
  std::iota(places.mutableInts(), places.mutableInts() + places.size(), 0);
  Tensor whole(perRank[0].element(), shape);
  std::vector<char> known(whole.size(), 0);
  Cell *out = whole.mutableCells();
  for (auto [rank, part] : llvm::enumerate(perRank)) {
    Tensor at = partOf(places, layout, mesh, rank);
    const int64_t *positions = at.ints();
    const Cell *cells = part.cells();
    for (int64_t i = 0; i < at.size(); ++i) {
      int64_t from = index(rank, i), to = positions[i];
      if (from < 0)
        continue;
      if (known[to] && out[to] != cells[from])
        return op.emitError("copies of element ")
               << to << " of '" << name << "' differ on rank " << rank;
      known[to] = 1;
      out[to] = cells[from];
    }
  }
  return whole;
}

std::optional<SplitState> SplitState::of(func::FuncOp function, Attribute symbol) {
  SplitState split;
  split.state = nn::getState(function, symbol);
  split.mesh = dist::getMesh(function);
  if (split.state)
    split.layout = split.state->getAttrOfType<dist::ShardingAttr>(dist::kShardingAttr);
  if (!split.layout || !split.mesh)
    return std::nullopt;
  return split;
}

FailureOr<std::vector<Tensor>> SplitState::pack(ValueSpec spec, int64_t ranks,
                                                LogicalValues &inputs) const {
  ArrayRef<int64_t> shape = state.getTensorType().getShape();
  spec.shape.assign(shape.begin(), shape.end());
  FailureOr<Tensor> whole = inputs.get(spec, state.getLoc());
  if (failed(whole))
    return failure();
  if (mesh.getRankCount() != ranks)
    return mesh.emitError("has ") << mesh.getRankCount() << " ranks, the interpreter runs "
                                  << ranks;
  if (failed(dist::ShardingAttr(layout).verifyFits(state, state.getTensorType())))
    return failure();
  if (whole->shape() != shape || whole->element() != spec.element)
    return state.emitError("the value of '") << spec.name << "' is " << whole->shapeString();
  std::vector<Tensor> parts;
  for (int64_t rank = 0; rank < ranks; ++rank)
    parts.push_back(partOf(*whole, layout, mesh, rank));
  return parts;
}

FailureOr<Tensor> SplitState::unpack(ArrayRef<Tensor> perRank) const {
  return joinParts(state, state.getSymName(), state.getTensorType().getShape(), layout, mesh,
                   perRank, [](int64_t, int64_t i) { return i; });
}

} // namespace shale::interp
