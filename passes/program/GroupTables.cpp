//===- GroupTables.cpp - The table of groups ------------------------------===//
#include "passes/program/GroupTables.h"
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/State.h"
#include "passes/program/Program.h"

using namespace mlir;
using namespace shale;

namespace {
/// The part of a parameter that a rank holds. At most one axis splits each dimension.
struct Split {
  SmallVector<int64_t> dims, begin, size;
  SmallVector<StringRef> axes; ///< the axis that splits a dimension, or ""

  void add(int64_t dim, int64_t first, int64_t indices, StringRef axis) {
    dims.push_back(dim);
    begin.push_back(first);
    size.push_back(indices);
    axes.push_back(axis);
  }
};
} // namespace

/// Returns what ranks hold of the parameter `whole`, whose value, or part of it, `state` is. Empty
/// if every rank holds all of it. Fails after an error if a part is not inside its parameter (but
/// for padding after its last row), or if several axes split a dimension of it.
static FailureOr<Split> splitOf(nn::StateOp state, nn::StateOp whole, dist::MeshOp mesh) {
  auto sharding = state->getAttrOfType<dist::ShardingAttr>(dist::kShardingAttr);
  auto part = state->getAttrOfType<nn::PartAttr>(nn::kPartAttr);
  Split split;
  if ((!sharding || sharding.isReplicated()) && !part)
    return split;
  RankedTensorType type = state.getTensorType(), of = whole.getTensorType();
  auto refuse = [&] { return state.emitOpError("is not a part of ") << of; };
  if (type.getRank() != of.getRank())
    return refuse();
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    SmallVector<StringRef, 2> axes;
    if (sharding)
      axes = sharding.getAxes(dim);
    int64_t own = type.getDimSize(dim), all = of.getDimSize(dim);
    bool cut = part && part.getDim() == dim;
    int64_t begin = cut ? part.getBegin() : 0, padding = cut ? part.getPadding() : 0;
    if (begin < 0 || padding < 0 || padding >= own || begin > all - (own - padding) ||
        (!cut && own != all) || (cut && axes.size() > 1) ||
        (padding > 0 && (dim > 0 || begin + own - padding != all)))
      return refuse();
    for (StringRef axis : axes)
      own /= mesh.getSize(axis);
    // A dimension that several axes split becomes several, major to minor.
    for (StringRef axis : ArrayRef(axes).drop_back(axes.empty() ? 0 : 1)) {
      split.add(mesh.getSize(axis), 0, 1, axis);
      all /= mesh.getSize(axis);
    }
    split.add(all, begin, own, axes.empty() ? "" : axes.back());
  }
  return split;
}

namespace {
class GroupTable {
public:
  GroupTable(ModuleOp module, ConstantData &data, const ParameterIndex &parameters,
             GroupIndex &index)
      : module(module), data(data), parameters(parameters), index(index) {}

  LogicalResult addUnit(dist::UnitOp unit);
  void addAlone(nn::StateOp state);
  Datum take() { return data.array("groups", std::move(rows)); }

private:
  Datum segment(int64_t parameter, double decay, int64_t offset, int64_t count,
                const Split &split = {});
  void add(std::pair<StringAttr, int64_t> key, StringRef name, int64_t count,
           std::vector<Datum> segments);

  ModuleOp module;
  ConstantData &data;
  const ParameterIndex &parameters;
  GroupIndex &index;
  std::vector<Datum> rows;
};
} // namespace

Datum GroupTable::segment(int64_t parameter, double decay, int64_t offset, int64_t count,
                          const Split &split) {
  auto numbers = [&](ArrayRef<int64_t> values) {
    std::vector<Datum> list;
    for (int64_t value : values)
      list.push_back(data.i64(value));
    return list.empty() ? data.null() : data.array("box", std::move(list));
  };
  std::vector<Datum> axes;
  for (StringRef axis : split.axes)
    axes.push_back(data.i32(axis.empty() ? -1 : axisIndex(module, axis)));
  return data.fields({data.i32(parameter), data.f32(decay), data.i64(offset), data.i64(count),
                      data.i32(split.dims.size()), data.i32(0), numbers(split.dims),
                      numbers(split.begin), numbers(split.size),
                      axes.empty() ? data.null() : data.array("split", std::move(axes))});
}

void GroupTable::add(std::pair<StringAttr, int64_t> key, StringRef name, int64_t count,
                     std::vector<Datum> segments) {
  index[key] = rows.size();
  int64_t size = segments.size();
  rows.push_back(data.fields({data.string(name), data.i64(count), data.i32(size), data.i32(0),
                              data.array("segments", std::move(segments))}));
}

LogicalResult GroupTable::addUnit(dist::UnitOp unit) {
  dist::MeshOp mesh = dist::getMesh(module);
  for (auto [number, group] : llvm::enumerate(unit.getGroups().getAsRange<dist::GroupAttr>())) {
    std::vector<Datum> segments;
    for (auto attr : group.getSegments().getAsRange<dist::SegmentAttr>()) {
      auto state = module.lookupSymbol<nn::StateOp>(attr.getParam().getAttr());
      auto part = state ? state->getAttrOfType<nn::PartAttr>(nn::kPartAttr) : nn::PartAttr();
      auto whole = part ? module.lookupSymbol<nn::StateOp>(part.getWhole().getAttr()) : state;
      auto it = whole ? parameters.find(whole.getSymNameAttr()) : parameters.end();
      if (it == parameters.end())
        return unit.emitOpError("has a segment of ")
               << attr.getParam() << ", but the module has no such parameter";
      // Optimizer state of another shape than its parameter is whole on every rank.
      FailureOr<Split> split = group.getSlot() ? Split() : splitOf(state, whole, mesh);
      if (failed(split))
        return failure();
      segments.push_back(segment(it->second, attr.getDecay().getValueAsDouble(), attr.getOffset(),
                                 attr.getCount(), *split));
    }
    add({unit.getSymNameAttr(), int64_t(number)},
        (unit.getSymName() + "." + group.getName().getValue()).str(), group.getCount(),
        std::move(segments));
  }
  return success();
}

void GroupTable::addAlone(nn::StateOp state) {
  int64_t count = state.getTensorType().getNumElements();
  double decay = state.getDecayAttr() ? state.getDecayAttr().getValueAsDouble() : 1.0;
  std::vector<Datum> segments{
      segment(parameters.find(state.getSymNameAttr())->second, decay, 0, count)};
  add({state.getSymNameAttr(), -1}, state.getSymName(), count, std::move(segments));
}

FailureOr<Datum> shale::groupTable(ModuleOp module, ConstantData &data,
                                   const ParameterIndex &parameters, ArrayRef<Operation *> alone,
                                   GroupIndex &index) {
  GroupTable table(module, data, parameters, index);
  for (auto unit : module.getOps<dist::UnitOp>())
    if (failed(table.addUnit(unit)))
      return failure();
  for (Operation *state : alone)
    table.addAlone(cast<nn::StateOp>(state));
  return table.take();
}
