//===- FlatState.cpp - Packs parameters to flat groups of virtual ranks ---===//
#include "lib/Interpreter/Dist/FlatState.h"
#include "dialects/nn/Ops/State.h"
#include "dialects/nn/Optimizers.h"
#include "dialects/nn/StateSharding.h"
#include "lib/Interpreter/Dist/SplitState.h"
#include "mlir/IR/SymbolTable.h"
#include <algorithm>
#include <cstring>

using namespace mlir;

namespace shale::interp {

DataRanks::DataRanks(Operation *op, int64_t ranks) : count(ranks), mesh(dist::getMesh(op)) {
  if (!mesh)
    return;
  count = 1;
  for (StringRef axis : mesh.getAxesThat(dist::splitsInputs))
    count *= mesh.getSize(axis);
}

int64_t DataRanks::indexOf(int64_t rank) const {
  dist::MeshOp at = mesh;
  if (!at)
    return rank;
  int64_t index = 0;
  for (StringRef axis : at.getAxesThat(dist::splitsInputs))
    index = index * at.getSize(axis) + at.getCoordinate(rank, axis);
  return index;
}

std::optional<FlatState> FlatState::of(func::FuncOp function, FlatSymbolRefAttr symbol) {
  if (!symbol)
    return std::nullopt;
  auto state = nn::getState(function, symbol);
  auto unitName =
      state ? state->getAttrOfType<FlatSymbolRefAttr>(dist::kUnitAttr) : FlatSymbolRefAttr();
  if (!unitName)
    return std::nullopt;
  auto unit = SymbolTable::lookupNearestSymbolFrom<dist::UnitOp>(function, unitName);
  auto index = state->getAttrOfType<IntegerAttr>(dist::kGroupAttr);
  FlatState flat;
  flat.state = state;
  flat.mesh = dist::getMesh(function);
  flat.element = *elementOf(state.getTensorType().getElementType());
  flat.isCopy = state->hasAttr(dist::kCopyAttr);
  flat.group = unit && index ? unit.getGroup(index.getInt()) : nullptr;
  if (auto axis = state->getAttrOfType<StringAttr>(dist::kAxisAttr))
    flat.axis = axis.getValue().str();
  if (auto partial = state->getAttrOfType<ArrayAttr>(dist::kPartialAttr))
    for (auto axis : partial.getAsRange<StringAttr>())
      flat.partial.push_back(axis.getValue().str());
  if (!flat.group || !flat.mesh)
    return std::nullopt; // the caller reports the error
  return flat;
}

std::optional<FlatState> FlatState::ofArgument(func::FuncOp function, unsigned i) {
  return of(function, function.getArgAttrOfType<FlatSymbolRefAttr>(i, nn::kStateAttr));
}

std::optional<FlatState> FlatState::ofResult(func::FuncOp function, unsigned i) {
  return of(function, function.getResultAttrOfType<FlatSymbolRefAttr>(i, nn::kStateAttr));
}

FailureOr<nn::StateOp> FlatState::parameter(dist::SegmentAttr segment) const {
  auto found = nn::getState(state, segment.getParam());
  if (!found)
    return state.emitError("holds parameter ") << segment.getParam() << ", which is not declared";
  return found;
}

/// Returns the logical name: the parameter's name, for a moment followed by its role.
std::string FlatState::nameOf(dist::SegmentAttr segment) const {
  return segment.getParam().getValue().str() + suffix();
}

/// Returns what follows the parameter's name in that of a moment.
std::string FlatState::suffix() const {
  return state.getOf() ? "." + state.getSlot().value_or(nn::stringifyRole(state.getRole())).str()
                       : "";
}

/// Returns the shape of a segment's logical value.
SmallVector<int64_t> FlatState::shapeOf(dist::SegmentAttr segment, nn::StateOp param) const {
  if (!group.getSlot())
    return SmallVector<int64_t>(param.getTensorType().getShape());
  SmallVector<int64_t> shape(segment.getShape().asArrayRef());
  const nn::Optimizer *own = nn::getOptimizerOf(param);
  if (own && own->stateShape)
    shape = own->stateShape(param.getTensorType().getShape());
  return shape;
}

/// Returns how tensor axes split a segment's logical value; null if it is whole.
dist::ShardingAttr FlatState::layoutOf(dist::SegmentAttr segment, nn::StateOp param) const {
  auto layout = param->getAttrOfType<dist::ShardingAttr>(dist::kShardingAttr);
  if (!layout || !group.getSlot())
    return layout;
  auto type =
      RankedTensorType::get(shapeOf(segment, param), state.getTensorType().getElementType());
  return nn::getStateSharding(param, type, layout);
}

/// Returns what a segment's value is of that of a larger parameter, or of its moments.
std::optional<ValuePart> FlatState::partOf(nn::StateOp param) const {
  std::optional<ValuePart> part;
  if (!group.getSlot())
    part = ValuePart::of(param);
  if (part)
    part->whole += suffix();
  return part;
}

FailureOr<std::vector<Tensor>> FlatState::pack(int64_t ranks, LogicalValues &inputs) const {
  if (mesh.getRankCount() != ranks)
    return mesh.emitError("has ") << mesh.getRankCount() << " ranks, the interpreter runs "
                                  << ranks;
  if (!inputs.hasRoomFor({group.getCount()}, ranks))
    return state.emitError("of ") << group.getCount() << " elements on " << ranks
                                  << " ranks exceeds the interpreter's " << (inputs.maxBytes >> 20)
                                  << " MiB";
  std::vector<Tensor> flats;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    flats.emplace_back(element, ArrayRef<int64_t>{group.getCount()});
    flats.back().fill(0);
  }
  for (Attribute entry : group.getSegments()) {
    auto segment = cast<dist::SegmentAttr>(entry);
    FailureOr<nn::StateOp> found = parameter(segment);
    if (failed(found))
      return failure();
    nn::StateOp param = *found;
    ValueSpec spec;
    spec.name = nameOf(segment);
    // A copy is the rounded value of the stored parameter.
    spec.element = isCopy ? *elementOf(group.getType()) : element;
    SmallVector<int64_t> shape = shapeOf(segment, param);
    spec.shape.assign(shape.begin(), shape.end());
    if (!state.getOf())
      spec.describe(param);
    spec.role = state.getRole();
    spec.part = partOf(param);
    FailureOr<Tensor> whole = inputs.get(spec, state.getLoc());
    if (failed(whole))
      return failure();
    if (isCopy && inputs.roundsCopies)
      *whole = whole->rounded(element);
    if (whole->shape() != ArrayRef(shape))
      return state.emitError("the value of '") << spec.name << "' is " << whole->shapeString();
    dist::ShardingAttr layout = layoutOf(segment, param);
    if (layout && failed(layout.verifyFits(
                      state, RankedTensorType::get(shape, state.getTensorType().getElementType()))))
      return failure();
    for (int64_t rank = 0; rank < ranks; ++rank) {
      // Of a sum over ranks, one rank gets the value, the others get zero.
      if (llvm::any_of(partial, [&](const std::string &axis) {
            return mesh.getCoordinate(rank, axis) != 0;
          }))
        continue;
      Tensor part = interp::partOf(*whole, layout, mesh, rank);
      std::copy(part.cells(), part.cells() + part.size(),
                flats[rank].mutableCells() + segment.getOffset());
    }
  }
  if (!axis.empty()) {
    int64_t length = group.getCount() / mesh.getSize(axis);
    for (int64_t rank = 0; rank < ranks; ++rank)
      flats[rank] = flats[rank].slice(0, mesh.getCoordinate(rank, axis) * length, length);
  }
  return flats;
}

/// Adds partial sums in rank order and returns the sum on each rank. Without partial sums,
/// returns `perRank`.
std::vector<Tensor> FlatState::summed(ArrayRef<Tensor> perRank) const {
  std::vector<Tensor> result(perRank.begin(), perRank.end());
  if (partial.empty())
    return result;
  llvm::StringMap<std::vector<int64_t>> classes; // by the other coordinates
  for (size_t rank = 0; rank < perRank.size(); ++rank) {
    std::string key;
    for (Attribute axis : mesh.getAxes()) {
      StringRef name = cast<StringAttr>(axis).getValue();
      if (!llvm::is_contained(partial, name))
        key += "." + std::to_string(mesh.getCoordinate(rank, name));
    }
    classes[key].push_back(rank);
  }
  for (auto &entry : classes) {
    Tensor sum = perRank[entry.second.front()];
    double *out = sum.mutableFloats();
    for (int64_t rank : llvm::drop_begin(entry.second))
      for (int64_t i = 0; i < sum.size(); ++i)
        out[i] += perRank[rank].floats()[i];
    for (int64_t rank : entry.second)
      result[rank] = sum;
  }
  return result;
}

LogicalResult FlatState::unpack(ArrayRef<Tensor> values, LogicalValues &results) const {
  std::vector<Tensor> perRank = summed(values);
  int64_t count = group.getCount();
  int64_t length = axis.empty() ? count : count / mesh.getSize(axis);
  std::vector<int64_t> begins; // of the ranks' parts
  for (size_t rank = 0; rank < perRank.size(); ++rank)
    begins.push_back(axis.empty() ? 0 : mesh.getCoordinate(rank, axis) * length);
  std::vector<char> covered(count, 0);
  for (Attribute entry : group.getSegments()) {
    auto segment = cast<dist::SegmentAttr>(entry);
    FailureOr<nn::StateOp> found = parameter(segment);
    if (failed(found))
      return failure();
    nn::StateOp param = *found;
    std::fill_n(covered.begin() + segment.getOffset(), segment.getCount(), 1);
    int64_t offset = segment.getOffset();
    auto index = [&](int64_t rank, int64_t i) -> int64_t {
      int64_t from = offset + i - begins[rank];
      return from < length ? std::max<int64_t>(from, -1) : -1;
    };
    FailureOr<Tensor> joined = joinParts(state, nameOf(segment), shapeOf(segment, param),
                                         layoutOf(segment, param), mesh, perRank, index);
    if (failed(joined))
      return failure();
    Tensor whole = std::move(*joined);
    std::optional<ValuePart> part = partOf(param);
    if (!isCopy) {
      if (failed(results.set(nameOf(segment), part, whole, state)))
        return failure();
      continue;
    }
    std::optional<Tensor> kept = results.find(nameOf(segment), part);
    if (!kept)
      return state.emitError("is a copy of '") << nameOf(segment) << "', which has no new value";
    Tensor expected = results.roundsCopies ? kept->rounded(element) : *kept;
    if (std::memcmp(expected.cells(), whole.cells(), whole.size() * sizeof(Cell)) != 0)
      return state.emitError("is not the copy of the new '") << nameOf(segment) << "'";
  }
  for (auto [rank, piece] : llvm::enumerate(perRank)) {
    int64_t begin = begins[rank];
    for (int64_t i = 0; i < length; ++i)
      if (!covered[begin + i] && piece.number(i) != 0)
        return state.emitError("padding element ") << begin + i << " is not zero on rank " << rank;
  }
  return success();
}

} // namespace shale::interp
