//===- GroupTables.cpp - The table of groups ------------------------------===//
#include "passes/program/GroupTables.h"
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/State.h"
#include "passes/program/Program.h"

using namespace mlir;
using namespace shale;

namespace {
/// The dimensions of a parameter, each split by at most one axis.
struct Split {
  SmallVector<int64_t> dims;
  SmallVector<StringRef> axes; ///< the axis that splits a dimension, or ""
};
} // namespace

/// Returns how `state` is split at use. A dimension that several axes split becomes several
/// dimensions, major to minor. Empty if every rank holds all of it.
static Split splitOf(nn::StateOp state, dist::MeshOp mesh) {
  auto sharding = state->getAttrOfType<dist::ShardingAttr>(dist::kShardingAttr);
  Split split;
  if (!sharding || sharding.isReplicated())
    return split;
  for (auto [dim, size] : llvm::enumerate(state.getTensorType().getShape())) {
    int64_t rest = size;
    SmallVector<StringRef, 2> axes = sharding.getAxes(dim);
    for (StringRef axis : ArrayRef(axes).drop_back(axes.empty() ? 0 : 1)) {
      split.dims.push_back(mesh.getSize(axis));
      split.axes.push_back(axis);
      rest /= mesh.getSize(axis);
    }
    split.dims.push_back(rest);
    split.axes.push_back(axes.empty() ? "" : axes.back());
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
  std::vector<Datum> dims, axes;
  for (auto [size, axis] : llvm::zip(split.dims, split.axes)) {
    dims.push_back(data.i64(size));
    axes.push_back(data.i32(axis.empty() ? -1 : axisIndex(module, axis)));
  }
  bool whole = dims.empty();
  return data.fields({data.i32(parameter), data.f32(decay), data.i64(offset), data.i64(count),
                      data.i32(split.dims.size()), data.i32(0),
                      whole ? data.null() : data.array("dims", std::move(dims)),
                      whole ? data.null() : data.array("split", std::move(axes))});
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
      auto it = parameters.find(attr.getParam().getAttr());
      auto state = module.lookupSymbol<nn::StateOp>(attr.getParam().getAttr());
      if (it == parameters.end() || !state)
        return unit.emitOpError("has a segment of ")
               << attr.getParam() << ", but the module has no such parameter";
      // Optimizer state of another shape than its parameter is whole on every rank.
      Split split = group.getSlot() ? Split() : splitOf(state, mesh);
      segments.push_back(segment(it->second, attr.getDecay().getValueAsDouble(), attr.getOffset(),
                                 attr.getCount(), split));
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
