//===- GroupTables.cpp - The tables of groups and states ------------------===//
#include "passes/program/GroupTables.h"
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/State.h"
#include "dialects/nn/Optimizers.h"
#include "passes/program/Program.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace shale;
using namespace shale::abi;

namespace {
/// The part of a parameter that each rank holds. A dimension is split by at most one axis, which
/// may be a joint axis.
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
/// for padding after its last row or column), or if axes split a part in another order than the
/// mesh's.
static FailureOr<Split> splitOf(nn::StateOp state, nn::StateOp whole, dist::MeshOp mesh) {
  auto sharding = state->getAttrOfType<dist::ShardingAttr>(dist::kShardingAttr);
  auto part = state->getAttrOfType<nn::PartAttr>(nn::kPartAttr);
  Split split;
  if ((!sharding || sharding.isReplicated()) && !part)
    return split;
  RankedTensorType type = state.getTensorType(), of = whole.getTensorType();
  auto refuse = [&] { return state.emitOpError("is not a part of ") << of; };
  if (type.getRank() != of.getRank() || (sharding && !sharding.isContiguous()))
    return refuse();
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    SmallVector<StringRef, 2> axes;
    if (sharding)
      axes = sharding.getAxes(dim);
    int64_t own = type.getDimSize(dim), all = of.getDimSize(dim);
    bool cut = part && part.getDim() == dim;
    // Axes that split a part do so as one: a box has one range of a dimension that is cut.
    if (cut && axes.size() > 1 && llvm::is_sorted(axes, [&](StringRef a, StringRef b) {
          return mesh.indexOf(a) < mesh.indexOf(b);
        }))
      axes = {mesh.join(axes)};
    int64_t begin = cut ? part.getBegin() : 0, padding = cut ? part.getPadding() : 0;
    if (begin < 0 || padding < 0 || padding >= own || begin > all - (own - padding) ||
        (!cut && own != all) || (cut && axes.size() > 1) ||
        (padding > 0 && ((dim > 0 && dim + 1 < type.getRank()) || begin + own - padding != all)))
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

/// Returns what ranks hold of the blocks of a parameter's state, of what they hold of its elements:
/// `words` of the state for every `block` elements. The state's dimensions are the elements before
/// the first dimension that is cut, that dimension with all that follow it, and so on.
static Split inBlocks(const Split &elements, int64_t block, int64_t words) {
  Split split;
  int64_t all = 1; // elements of the dimensions from the last one that was cut on
  auto cuts = [&](size_t dim) {
    return elements.begin[dim] != 0 || elements.size[dim] != elements.dims[dim] ||
           !elements.axes[dim].empty();
  };
  for (size_t dim = elements.dims.size(); dim-- > 0;) {
    int64_t inner = all;
    all *= elements.dims[dim];
    if (!cuts(dim) && dim > 0)
      continue;
    bool isLast = split.dims.empty();
    auto count = [&](int64_t indices) {
      return isLast ? int64_t(llvm::divideCeil(indices * inner, block)) * words : indices * inner;
    };
    split.add(count(elements.dims[dim]), count(elements.begin[dim]), count(elements.size[dim]),
              elements.axes[dim]);
    all = 1;
  }
  for (auto *list : {&split.dims, &split.begin, &split.size})
    std::reverse(list->begin(), list->end());
  std::reverse(split.axes.begin(), split.axes.end());
  return split;
}

namespace {
class GroupTable {
public:
  GroupTable(ModuleOp module, ProgramData &data, const ParameterIndex &parameters,
             GroupIndex &index)
      : module(module), data(data), parameters(parameters), index(index) {}

  LogicalResult addUnit(dist::UnitOp unit);
  void addAlone(nn::StateOp state);
  Rows<ShaleGroup> take() { return data.table<ShaleGroup>("groups", rows); }

private:
  Row<ShaleSegment> segment(int64_t parameter, int64_t offset, int64_t count,
                            const Split &split = {});
  void add(std::pair<StringAttr, int64_t> key, StringRef name, int64_t count,
           const std::vector<Row<ShaleSegment>> &segments);

  ModuleOp module;
  ProgramData &data;
  const ParameterIndex &parameters;
  GroupIndex &index;
  std::vector<Row<ShaleGroup>> rows;
};
} // namespace

Row<ShaleSegment> GroupTable::segment(int64_t parameter, int64_t offset, int64_t count,
                                      const Split &split) {
  SmallVector<int32_t> axes;
  for (StringRef axis : split.axes)
    axes.push_back(axis.empty() ? -1 : int32_t(axisIndex(module, axis)));
  Row<ShaleSegment> row;
  row.parameter = parameter;
  row.offset = offset;
  row.count = count;
  row.rank = split.dims.size();
  row.dims = data.numbers("box", split.dims);
  row.begin = data.numbers("box", split.begin);
  row.size = data.numbers("box", split.size);
  row.axes = data.words("split", axes);
  return row;
}

void GroupTable::add(std::pair<StringAttr, int64_t> key, StringRef name, int64_t count,
                     const std::vector<Row<ShaleSegment>> &segments) {
  index[key] = rows.size();
  Row<ShaleGroup> row;
  row.name = data.text(name);
  row.count = count;
  row.segments = data.table<ShaleSegment>("segments", segments);
  rows.push_back(std::move(row));
}

LogicalResult GroupTable::addUnit(dist::UnitOp unit) {
  dist::MeshOp mesh = dist::getMesh(module);
  for (auto [number, group] : llvm::enumerate(unit.getGroups().getAsRange<dist::GroupAttr>())) {
    std::vector<Row<ShaleSegment>> segments;
    for (auto attr : group.getSegments().getAsRange<dist::SegmentAttr>()) {
      auto state = module.lookupSymbol<nn::StateOp>(attr.getParam().getAttr());
      auto part = state ? state->getAttrOfType<nn::PartAttr>(nn::kPartAttr) : nn::PartAttr();
      auto whole = part ? module.lookupSymbol<nn::StateOp>(part.getWhole().getAttr()) : state;
      auto it = whole ? parameters.find(whole.getSymNameAttr()) : parameters.end();
      if (it == parameters.end())
        return unit.emitOpError("has a segment of ")
               << attr.getParam() << ", but the module has no such parameter";
      FailureOr<Split> split = splitOf(state, whole, mesh);
      if (failed(split))
        return failure();
      if (group.getSlot()) { // optimizer state of another shape than its parameter
        const nn::Optimizer *own = nn::getOptimizerOf(state);
        int64_t block = own && own->stateShape ? own->stateBlock : 0;
        *split = block && !split->dims.empty()
                     ? inBlocks(*split, block, own->stateShape({block}).front())
                     : Split();
      }
      segments.push_back(segment(it->second, attr.getOffset(), attr.getCount(), *split));
    }
    add({unit.getSymNameAttr(), int64_t(number)},
        (unit.getSymName() + "." + group.getName().getValue()).str(), group.getCount(), segments);
  }
  return success();
}

void GroupTable::addAlone(nn::StateOp state) {
  int64_t count = state.getTensorType().getNumElements();
  Split split; // all axes divide what ranks have of their own
  if (state.getRole() == nn::Role::Residual) {
    dist::MeshOp mesh = dist::getMesh(module);
    for (auto axis : mesh.getAxes().getAsRange<StringAttr>())
      split.add(mesh.getSize(axis), 0, 1, axis);
    split.add(count, 0, count, "");
  }
  add({state.getSymNameAttr(), -1}, state.getSymName(), count,
      {segment(parameters.find(state.getSymNameAttr())->second, 0, count, split)});
}

FailureOr<Rows<ShaleGroup>> shale::groupTable(ModuleOp module, ProgramData &data,
                                              const ParameterIndex &parameters,
                                              ArrayRef<Operation *> alone, GroupIndex &index) {
  GroupTable table(module, data, parameters, index);
  for (auto unit : module.getOps<dist::UnitOp>())
    if (failed(table.addUnit(unit)))
      return failure();
  for (Operation *state : alone)
    table.addAlone(cast<nn::StateOp>(state));
  return table.take();
}

ArrayAttr shale::optimizerSlots(ModuleOp module) {
  llvm::SmallSetVector<Attribute, 2> found;
  for (auto state : module.getOps<nn::StateOp>())
    if (state.getSlotAttr())
      found.insert(state.getSlotAttr());
  return ArrayAttr::get(module.getContext(), found.getArrayRef());
}

/// Returns the role of a state (ShaleRole). Each name of the optimizer's state is one of its own.
static int64_t runtimeRole(nn::StateOp state, ArrayAttr slots) {
  if (StringAttr slot = state.getSlotAttr())
    return SHALE_ROLE_SLOT + int64_t(llvm::find(slots, slot) - slots.begin());
  return state.getRole() == nn::Role::LossScale  ? SHALE_ROLE_LOSS_SCALE
         : state.getRole() == nn::Role::Residual ? SHALE_ROLE_RESIDUAL
                                                 : SHALE_ROLE_PARAM;
}

/// Returns the offset of the host's block in the state table, where it follows the device's block.
static int64_t hostStateBegin(ModuleOp module) {
  auto bytes = module->getAttrOfType<IntegerAttr>(rt::kStateBytesAttr);
  return bytes ? bytes.getInt() : 0;
}

FailureOr<Rows<ShaleState>> shale::stateTable(ModuleOp module, ProgramData &data,
                                              const GroupIndex &groups, ArrayAttr slots) {
  std::vector<Row<ShaleState>> rows;
  for (auto slot : module.getOps<rt::SlotOp>()) {
    auto state = module.lookupSymbol<nn::StateOp>(rt::stateNameOf(slot.getSymName()));
    // Gradients live within one step only: they are neither initialized nor saved.
    bool residual = state && state.getRole() == nn::Role::Residual;
    if (slot.getCategory() == rt::Category::Gradients && !residual)
      continue;
    if (!state)
      return slot.emitOpError("belongs to no nn.state"), failure();
    std::pair<StringAttr, int64_t> key;
    if (auto unit = state->getAttrOfType<FlatSymbolRefAttr>(dist::kUnitAttr)) {
      auto group = state->getAttrOfType<IntegerAttr>(dist::kGroupAttr);
      key = {unit.getAttr(), group ? group.getInt() : 0};
    } else {
      key = {state.getOfAttr() ? state.getOfAttr().getAttr() : state.getSymNameAttr(), -1};
    }
    auto it = groups.find(key);
    if (it == groups.end())
      return state.emitOpError("belongs to no group"), failure();
    auto type = cast<RankedTensorType>(slot.getType());
    int64_t axis = slot.getAxis() ? axisIndex(module, *slot.getAxis()) : -1;
    if (slot.getAxis() && axis < 0)
      return slot.emitOpError() << "the mesh has no axis \"" << *slot.getAxis() << "\"", failure();
    Row<ShaleState> row;
    row.group = it->second;
    row.role = runtimeRole(state, slots);
    row.type = runtimeType(type.getElementType());
    row.axis = axis;
    row.offset =
        slot.getOffset() + (slot.getMemory() == mem::Memory::Host ? hostStateBegin(module) : 0);
    row.local_count = type.getNumElements();
    rows.push_back(std::move(row));
  }
  return data.table<ShaleState>("states", rows);
}
