//===- Units.cpp - How parameters are stored ------------------------------===//
#include "passes/sharding/Units.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Target/Target.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/sharding/SplitUpdates.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;

namespace shale {
inline namespace sharding {

class UnitsBuilder {
public:
  UnitsBuilder(ModuleOp module, dist::MeshOp mesh, const Target &target)
      : module(module), mesh(mesh), target(target), symbols(module), builder(module.getContext()) {}
  FailureOr<Units> build();

private:
  struct PlannedGroup {
    std::string name;
    StoredKind kind;
    StoragePlan plan;
    StringAttr optimizer; ///< if it is not the module's
    AxisList axes;
    std::vector<nn::StateOp> params;
    std::vector<TensorLayout> layouts;
  };
  struct PlannedUnit {
    SmallVector<PlannedGroup, 2> groups;
  };

  LogicalResult readFunctions();
  LogicalResult verifyReductions();
  LogicalResult verifyGathers();
  LogicalResult readUpdate(OptimizerUpdateOpInterface update);
  LogicalResult place(nn::StateOp state);
  /// Returns the elements of a group whose segments end at `end`: a multiple of the axis' size, so
  /// that each rank has an equal slice, aligned like a segment if kernels of the target need that.
  int64_t paddedCount(StringAttr storage, int64_t end, int64_t alignment, int64_t block,
                      bool exchanged = false);
  int64_t blockOf(const PlannedGroup &group);
  FailureOr<dist::GroupAttr> layOut(PlannedGroup &group);
  FailureOr<dist::GroupAttr> layOutState(const PlannedGroup &group, dist::GroupAttr flat,
                                         size_t number);
  FlatState declare(const std::string &name, nn::Role role, Type element, dist::UnitOp unit,
                    int64_t index, dist::GroupAttr group, StringAttr axis, FlatSymbolRefAttr of);
  LogicalResult declareUnit(StringRef name, PlannedUnit &planned);

  ModuleOp module;
  dist::MeshOp mesh;
  const Target &target;
  SymbolTable symbols;
  OpBuilder builder;
  Units units;
  llvm::StringMap<TrainedParameter> trained;
  llvm::StringMap<Type> accumulated; // by parameter: the type of its gradient accumulator
  /// By parameter: the type in which its gradient is reduced, and the type to which
  /// all its uses but the update cast it (null if they differ).
  llvm::StringMap<Type> reduced, used;
  llvm::MapVector<StringRef, PlannedUnit> planned;
};

/// Records the parameter that an update trains, its factors and its optimizer state.
LogicalResult UnitsBuilder::readUpdate(OptimizerUpdateOpInterface update) {
  // verifyStateUses() checked that these are arguments.
  auto stateOf = [](Value value) { return nn::getState(cast<BlockArgument>(value)); };
  nn::StateOp param = stateOf(update.getParameterOperand().get());
  auto [it, inserted] = trained.try_emplace(param.getSymName());
  if (!inserted)
    return update->emitOpError("updates parameter '") << param.getSymName() << "' a second time";
  it->second.factors = update.getUpdateFactors();
  it->second.elementwiseState = update.hasElementwiseState();
  it->second.optimizer = nn::findOptimizer(update->getName().stripDialect());
  reduced[param.getSymName()] =
      cast<RankedTensorType>(update.getGradientOperand().get().getType()).getElementType();
  for (OpOperand *operand : update.getStateOperands())
    it->second.moments.push_back(stateOf(operand->get()));
  return success();
}

/// Returns the type to which all uses of the argument but its update cast it; null
/// if one reads it without a cast, or if the types differ.
static Type usedType(BlockArgument argument) {
  Type type;
  for (OpOperand &use : argument.getUses()) {
    auto update = dyn_cast<OptimizerUpdateOpInterface>(use.getOwner());
    if (update && &update.getParameterOperand() == &use)
      continue;
    auto to = dyn_cast<nn::CastOp>(use.getOwner());
    Type element = to ? to.getType().getElementType() : Type();
    if (!element || (type && element != type))
      return {};
    type = element;
  }
  return type;
}

LogicalResult UnitsBuilder::readFunctions() {
  for (auto function : module.getOps<func::FuncOp>()) {
    for (BlockArgument argument : function.getArguments()) {
      auto symbol =
          function.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), nn::kStateAttr);
      if (!symbol)
        continue;
      auto [use, first] = used.try_emplace(symbol.getValue(), usedType(argument));
      if (!first && use->second != usedType(argument))
        use->second = Type();
    }
    for (auto update : function.getOps<OptimizerUpdateOpInterface>())
      if (failed(readUpdate(update)))
        return failure();
  }
  return success();
}

/// Adds a parameter or buffer to the group of its unit, types, kind, optimizer and axes.
LogicalResult UnitsBuilder::place(nn::StateOp state) {
  PlannedUnit &unit = planned[state.getUnit().value_or("root")];
  auto sharding = state->getAttrOfType<dist::ShardingAttr>(dist::kShardingAttr);
  TensorLayout layout = sharding ? TensorLayout::from(sharding)
                                 : TensorLayout::replicated(state.getTensorType().getRank());
  AxisList axes;
  for (const DimAxes &list : layout.dims)
    axes.append(list.begin(), list.end());
  llvm::sort(axes);
  StoredKind kind;
  kind.type = state.getTensorType().getElementType();
  kind.used = used.lookup(state.getSymName());
  kind.reduce = reduced.lookup(state.getSymName());
  kind.trained = trained.count(state.getSymName());
  kind.buffer = state.getRole() == nn::Role::Buffer;
  if (!kind.reduce)
    kind.reduce = kind.type;
  auto optimizer =
      kind.trained ? state->getAttrOfType<StringAttr>(nn::kOptimizerAttr) : StringAttr();
  kind.axes = axes;
  StoragePlan plan = planStorage(units.policy, mesh, kind);
  auto group = llvm::find_if(unit.groups, [&](const PlannedGroup &g) {
    return g.kind.type == kind.type && g.kind.reduce == kind.reduce &&
           g.kind.trained == kind.trained && g.kind.buffer == kind.buffer &&
           g.plan.wire == plan.wire && g.plan.storage == plan.storage && g.optimizer == optimizer &&
           g.axes == axes;
  });
  if (group == unit.groups.end()) {
    PlannedGroup fresh{{}, kind, plan, optimizer, axes, {}, {}};
    llvm::raw_string_ostream name(fresh.name);
    name << kind.type;
    if (plan.wire != kind.type)
      name << (plan.storage.getUse() != plan.wire ? ".sent." : ".used.") << plan.wire;
    if (kind.reduce != kind.type)
      name << ".reduced." << kind.reduce;
    name << (kind.buffer ? ".buffer" : kind.trained ? "" : ".frozen");
    if (optimizer)
      name << '.' << optimizer.getValue();
    for (StringRef axis : axes)
      name << '.' << axis;
    unit.groups.push_back(std::move(fresh));
    group = std::prev(unit.groups.end());
  }
  group->params.push_back(state);
  group->layouts.push_back(layout);
  return success();
}

namespace {
/// The segments of a group, one after the other.
class Segments {
public:
  /// A segment is aligned in each of the types, and begins at a multiple of `block` elements.
  explicit Segments(ArrayRef<Type> types, int64_t block = 1) : alignment(block) {
    for (Type type : types)
      alignment = std::lcm(alignment, dist::kSegmentAlignment / nn::elementBytes(type));
  }
  /// Appends the segment of a parameter; `stored` has `type` and is what the segment holds.
  LogicalResult append(nn::StateOp param, nn::StateOp stored, RankedTensorType type,
                       UpdateFactorsAttrInterface factors) {
    int64_t offset = llvm::alignTo(end, alignment);
    if (nn::tensorBytes(type) < 0 || llvm::AddOverflow(offset, type.getNumElements(), end) ||
        end > INT64_MAX / 64)
      return stored.emitError("is too large to be stored in a unit");
    Builder builder(param.getContext());
    list.push_back(dist::SegmentAttr::get(
        param.getContext(), FlatSymbolRefAttr::get(param.getContext(), param.getSymName()), offset,
        builder.getDenseI64ArrayAttr(type.getShape()), factors));
    return success();
  }

  SmallVector<Attribute> list;
  int64_t end = 0;       ///< elements
  int64_t alignment = 1; ///< elements
};
} // namespace

/// Returns the elements of a group whose last segment ends at `end`, padded so that the slice of
/// each rank along `storage` begins at a multiple of `block`. If slices are `exchanged`, each is
/// divided once more over the ranks of the other data axes, at multiples of `block`, too.
int64_t UnitsBuilder::paddedCount(StringAttr storage, int64_t end, int64_t alignment, int64_t block,
                                  bool exchanged) {
  bool aligned = storage && mesh.splits(storage) && target.alignsSlices();
  SmallVector<StringRef, 2> own;
  if (storage)
    own = dist::MeshOp::membersOf(storage);
  int64_t pieces = 1;
  for (StringRef axis : mesh.getAxesThat(dist::sumsGradients))
    if (exchanged && !llvm::is_contained(own, axis))
      pieces = std::lcm(pieces, mesh.getSize(axis));
  int64_t ranks = storage ? mesh.getSize(storage) : 1;
  return llvm::alignTo(end, ranks * pieces * (aligned ? alignment : block));
}

/// Returns the elements of a group's parameters that a block of their state belongs to; 1 if their
/// state is not in blocks.
int64_t UnitsBuilder::blockOf(const PlannedGroup &group) {
  nn::StateOp front = group.params.front();
  auto it = trained.find(front.getSymName());
  const nn::Optimizer *optimizer = it != trained.end() ? it->second.optimizer : nullptr;
  return optimizer && optimizer->stateBlock ? optimizer->stateBlock : 1;
}

/// Assigns each parameter its offset.
FailureOr<dist::GroupAttr> UnitsBuilder::layOut(PlannedGroup &group) {
  // A block has one scale, and no two parameters share it.
  bool sums = group.plan.storage.encodesSums();
  int64_t block = std::lcm(blockOf(group), group.plan.storage.getBlock());
  Segments segments({group.kind.type, group.plan.wire, group.kind.reduce}, block);
  for (auto [param, layout] : llvm::zip_equal(group.params, group.layouts)) {
    auto it = trained.find(param.getSymName());
    if (failed(segments.append(param, param, localType(param.getTensorType(), layout, mesh),
                               it != trained.end() ? it->second.factors
                                                   : UpdateFactorsAttrInterface())))
      return failure();
  }
  SmallVector<Attribute> axes;
  for (StringRef axis : group.axes)
    axes.push_back(builder.getStringAttr(axis));
  return dist::GroupAttr::get(
      module.getContext(), builder.getStringAttr(group.name), group.kind.type, group.plan.wire,
      group.kind.reduce, group.kind.trained, builder.getArrayAttr(axes),
      paddedCount(dist::MeshOp::without(units.policy.axis, group.axes), segments.end,
                  segments.alignment, block, sums),
      builder.getArrayAttr(segments.list), /*slot=*/StringAttr(), group.plan.storage);
}

/// Assigns each parameter's state of the given number its offset in a group of its own. State in
/// blocks is where the blocks of `flat`, the group of the parameters, are.
FailureOr<dist::GroupAttr> UnitsBuilder::layOutState(const PlannedGroup &group,
                                                     dist::GroupAttr flat, size_t number) {
  nn::StateOp front = group.params.front(), first = trained[front.getSymName()].moments[number];
  Type element = first.getTensorType().getElementType();
  Segments segments(element);
  int64_t block = blockOf(group), words = 0;
  if (block > 1) {
    words = trained[front.getSymName()].optimizer->stateShape({block}).front();
    segments.alignment = 1;
  }
  for (auto [i, place] : llvm::enumerate(flat.getSegments().getAsRange<dist::SegmentAttr>())) {
    nn::StateOp param = group.params[i];
    const TrainedParameter &own = trained[param.getSymName()];
    nn::StateOp state = own.moments[number];
    if (block > 1)
      segments.end = place.getOffset() / block * words;
    RankedTensorType type = state.getTensorType();
    type = localType(type, stateLayout(type, param, group.layouts[i]), mesh);
    if (failed(segments.append(param, state, type, own.factors)))
      return failure();
  }
  return dist::GroupAttr::get(
      module.getContext(), builder.getStringAttr(group.name + "." + first.getSlot()->str()),
      element, element, element, /*trained=*/true,
      block > 1 ? flat.getAxes() : builder.getArrayAttr({}),
      block > 1 ? flat.getCount() / block * words
                : paddedCount(units.policy.axis, segments.end, segments.alignment, 1),
      builder.getArrayAttr(segments.list), first.getSlotAttr(),
      /*storage=*/dist::StorageAttr());
}

FlatState UnitsBuilder::declare(const std::string &name, nn::Role role, Type element,
                                dist::UnitOp unit, int64_t index, dist::GroupAttr group,
                                StringAttr axis, FlatSymbolRefAttr of) {
  auto op = nn::StateOp::create(builder, unit.getLoc(), name, role,
                                RankedTensorType::get({group.getCount()}, element));
  if (of)
    op.setOfAttr(of);
  op.setTrained(group.getTrained());
  op->remove();
  symbols.insert(op, Block::iterator(*module.getOps<func::FuncOp>().begin()));
  op->setAttr(dist::kUnitAttr, FlatSymbolRefAttr::get(unit));
  op->setAttr(dist::kGroupAttr, builder.getI64IntegerAttr(index));
  if (axis)
    op->setAttr(dist::kAxisAttr, axis);
  return {op, axis};
}

LogicalResult UnitsBuilder::declareUnit(StringRef name, PlannedUnit &planned) {
  SmallVector<dist::GroupAttr> attrs;
  for (PlannedGroup &group : planned.groups) {
    FailureOr<dist::GroupAttr> attr = layOut(group);
    if (failed(attr))
      return failure();
    attrs.push_back(*attr);
  }
  // Groups of optimizer state of other shapes follow those of parameters.
  std::vector<size_t> ownState; // by group: the number of its first one
  for (PlannedGroup &group : planned.groups) {
    ownState.push_back(attrs.size());
    TrainedParameter &first = trained[group.params.front().getSymName()];
    for (size_t i = 0; group.kind.trained && !first.elementwiseState && i < first.moments.size();
         ++i) {
      FailureOr<dist::GroupAttr> attr = layOutState(group, attrs[ownState.size() - 1], i);
      if (failed(attr))
        return failure();
      attrs.push_back(*attr);
    }
  }
  builder.setInsertionPoint(*module.getOps<func::FuncOp>().begin());
  auto unit = dist::UnitOp::create(
      builder, module.getLoc(), builder.getStringAttr(name), FlatSymbolRefAttr::get(mesh),
      units.policy.axis, builder.getArrayAttr(SmallVector<Attribute>(attrs.begin(), attrs.end())));
  unit->remove();
  symbols.insert(unit, Block::iterator(*module.getOps<func::FuncOp>().begin()));
  for (auto [index, group] : llvm::enumerate(planned.groups)) {
    Group made;
    made.unit = unit;
    made.index = index;
    made.attr = attrs[index];
    made.params = group.params;
    std::string base = (name + "." + group.name).str();
    dist::StorageAttr storage = group.plan.storage;
    made.param =
        declare(base, group.kind.buffer ? nn::Role::Buffer : nn::Role::Param, group.kind.type, unit,
                index, attrs[index], storage.getRest(), FlatSymbolRefAttr());
    if (storage.getHow() == dist::Use::Copied) {
      made.copy = declare(base + ".copy", nn::Role::Param, group.plan.wire, unit, index,
                          attrs[index], StringAttr(), FlatSymbolRefAttr());
      made.copy.op->setAttr(dist::kCopyAttr, FlatSymbolRefAttr::get(made.param.op));
    }
    TrainedParameter &first = trained[group.params.front().getSymName()];
    for (auto [i, moment] : llvm::enumerate(first.moments)) {
      int64_t at = first.elementwiseState ? index : ownState[index] + i;
      FlatState state =
          declare(base + "." + moment.getSlot()->str(), moment.getRole(),
                  moment.getTensorType().getElementType(), unit, at, attrs[at],
                  first.elementwiseState || blockOf(group) > 1 ? storage.getUpdate() : StringAttr(),
                  FlatSymbolRefAttr::get(made.param.op));
      state.op.setSlotAttr(moment.getSlotAttr());
      if (!first.elementwiseState)
        for (auto segment : attrs[at].getSegments().getAsRange<dist::SegmentAttr>())
          state.places.push_back(segment.getOffset());
      made.moments.push_back(std::move(state));
    }
    if (group.kind.trained && accumulated.contains(group.params.front().getSymName()))
      made.accumulator =
          declare(base + ".grad_accumulator", nn::Role::GradAccumulator,
                  accumulated.lookup(group.params.front().getSymName()), unit, index, attrs[index],
                  storage.getSums(), FlatSymbolRefAttr::get(made.param.op));
    for (auto [i, param] : llvm::enumerate(group.params))
      units.places[param.getSymName()] = {units.groups.size(), i};
    units.groups.push_back(std::move(made));
  }
  return success();
}

bool isOutsideUnits(nn::StateOp state) {
  nn::Role role = state.getRole();
  return role == nn::Role::LossScale || role == nn::Role::Running ||
         (role == nn::Role::GradAccumulator && !state.getOf());
}

/// Checks that a type for gathers is that of one.
LogicalResult UnitsBuilder::verifyGathers() {
  auto rounds = [](const Group &group) { return group.storage().getUse() != group.attr.getWire(); };
  if (!units.policy.rounds || !dist::splitsOptimizer(units.policy.strategy) ||
      llvm::any_of(units.groups, rounds))
    return success();
  return module.emitError("--wire-dtype gather=")
         << (units.policy.rounds.isBF16() ? "bf16" : "f16")
         << " has no effect: no parameter is gathered that the model uses in f32; "
         << "leave it out";
}

/// Checks that what is rounded off in one step can be added to the gradients of the next one.
LogicalResult UnitsBuilder::verifyReductions() {
  if (!units.policy.sum)
    return success();
  for (auto &[name, type] : reduced)
    if (!type.isF32())
      return module.emitError("--wire-dtype reduce=int8 rounds gradients of f32; that of '")
             << name << "' is " << type << ": --reduce-dtype f32";
  for (auto state : module.getOps<nn::StateOp>())
    if (state.getRole() == nn::Role::LossScale)
      return module.emitError(
          "--wire-dtype reduce=int8 keeps what it rounds off for the next step, "
          "which has another loss scale: --param-dtype bf16");
  return success();
}

FailureOr<Units> UnitsBuilder::build() {
  FailureOr<StoragePolicy> policy = StoragePolicy::read(module, mesh);
  if (failed(policy))
    return failure();
  units.policy = *policy;
  units.mesh = mesh;
  if (failed(readFunctions()) || failed(verifyReductions()))
    return failure();
  for (auto state : module.getOps<nn::StateOp>()) {
    bool accumulator = state.getRole() == nn::Role::GradAccumulator;
    if (accumulator && state.getOf())
      accumulated[*state.getOf()] = state.getTensorType().getElementType();
    if (state.getOf() || isOutsideUnits(state))
      continue;
    if (failed(place(state)))
      return failure();
  }
  for (auto &[name, unit] : planned)
    if (failed(declareUnit(name, unit)))
      return failure();
  if (failed(verifyGathers()))
    return failure();
  return std::move(units);
}

FailureOr<Units> Units::build(ModuleOp module, dist::MeshOp mesh) {
  const Target *target = targetOf(module);
  if (!target)
    return failure();
  return UnitsBuilder(module, mesh, *target).build();
}

std::pair<Group *, int64_t> Units::find(StringRef param) {
  auto it = places.find(param);
  if (it == places.end())
    return {nullptr, 0};
  return {&groups[it->second.first], it->second.second};
}

} // namespace sharding
} // namespace shale
