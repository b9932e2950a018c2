//===- Partition.cpp - Converts values and ops to one rank's parts --------===//
#include "dialects/mem/Mem.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Ops/State.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/Rebuild.h"
#include "passes/sharding/Reshard.h"
#include "passes/sharding/SplitUpdates.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_PARTITIONPASS
#include "passes/sharding/Passes.h.inc"

namespace {

/// The layouts of parameters and buffers, the same in all functions.
class StateLayouts {
public:
  /// Reads the layouts of the arguments and records them on the states. Fails after an error.
  LogicalResult read(ModuleOp module, dist::MeshOp mesh);

  /// Returns the layout of a state's value; that of a parameter for its optimizer state and
  /// gradient accumulator.
  TensorLayout of(nn::StateOp state) const {
    nn::StateOp param = nn::getState(state, state.getOfAttr());
    nn::StateOp own = param ? param : state;
    TensorLayout layout = of(own.getSymName(), own.getTensorType().getRank());
    bool isMoment = param && state.getRole() == nn::Role::Moment;
    return isMoment ? stateLayout(state.getType(), param, layout) : layout;
  }
  TensorLayout of(StringRef param, int64_t rank) const {
    auto it = layouts.find(param);
    return it != layouts.end() ? it->second : TensorLayout::replicated(rank);
  }

private:
  llvm::StringMap<TensorLayout> layouts;
};

/// Rebuilds one function with the types of one rank's part, op by op in order.
class Partitioner {
public:
  Partitioner(func::FuncOp function, dist::MeshOp mesh, const StateLayouts &states)
      : function(function), mesh(mesh), states(states), inBlocks(hasBlocks(function, mesh)),
        builder(function.getContext(), &listener) {}

  /// Replaces the function. Fails after an error.
  LogicalResult run();

private:
  /// A value of the new function: one rank's part.
  struct Local {
    Value value;
    TensorLayout layout;
  };

  void makeSignature();
  LogicalResult partitionOp(Operation *op);
  LogicalResult partitionUpdate(OptimizerUpdateOpInterface update);
  void partitionAccumulate(GradientAccumulationOpInterface accumulate);
  void partitionReduction(Operation *op);
  void partitionReturn(Operation *op);
  Value converted(Value old, const TensorLayout &to);
  Value resharded(Value old, Value own, const TensorLayout &to);
  Type termTypeOf(Operation *op) const;
  bool gathersAgain(Value old, const TensorLayout &layout);
  Value replicated(Value old);
  SmallVector<Value> cloneLocal(Operation *op, ValueRange operands, ArrayRef<TensorLayout> results);
  void define(Operation *op, ValueRange made, ArrayRef<TensorLayout> layouts);
  Type localTypeOf(Value value, const TensorLayout &layout) {
    return localType(cast<RankedTensorType>(value.getType()), layout, mesh);
  }

  func::FuncOp function, fresh;
  dist::MeshOp mesh;
  const StateLayouts &states;
  bool inBlocks;
  CopyUnsharded listener;
  OpBuilder builder;
  DenseMap<Value, Local> locals;
  DenseMap<std::pair<Value, Attribute>, Value> cache;
  /// The element type to which matmuls were rounded of which an old value is a sum.
  DenseMap<Value, Type> termTypes;
};

} // namespace

//===- States -------------------------------------------------------------===//

LogicalResult StateLayouts::read(ModuleOp module, dist::MeshOp mesh) {
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments()) {
      auto symbol =
          function.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), nn::kStateAttr);
      if (!symbol)
        continue;
      nn::StateOp state = nn::getState(function, symbol);
      TensorLayout layout = *getLayout(argument);
      if (!layout.partial.empty())
        return function.emitError("state ") << symbol << " cannot be partial";
      if (layout.isInBlocks() && state.getRole() != nn::Role::Moment)
        return function.emitError("state ") << symbol << " must be split into contiguous parts";
      for (auto &axes : layout.dims)
        for (StringRef axis : axes)
          if (mesh.sumsGradients(axis) && !mesh.splitsExperts(axis))
            return function.emitError("state ")
                   << symbol << " is split at use over data axis '" << axis
                   << "': the strategy, not the sharding at use, splits state over data axes";
      if (state.getOf())
        continue;
      auto [it, inserted] = layouts.try_emplace(symbol.getValue(), layout);
      if (!inserted && !(it->second == layout))
        return function.emitError("state ")
               << symbol << " has another sharding than in another function";
    }
  for (auto state : module.getOps<nn::StateOp>()) {
    TensorLayout layout = of(state);
    if (llvm::any_of(layout.dims, [](const DimAxes &axes) { return !axes.empty(); }))
      state->setAttr(dist::kShardingAttr, layout.toAttr(module.getContext()));
  }
  return success();
}

//===- Values -------------------------------------------------------------===//

void Partitioner::makeSignature() {
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attrs;
  SmallVector<TensorLayout, 4> layouts;
  for (BlockArgument argument : function.getArguments()) {
    nn::StateOp state = nn::getState(argument);
    layouts.push_back(state ? states.of(state) : *getLayout(argument));
    types.push_back(localTypeOf(argument, layouts.back()));
    NamedAttrList kept(function.getArgAttrDict(argument.getArgNumber()));
    kept.erase(dist::kShardingAttr);
    attrs.push_back(kept.getDictionary(builder.getContext()));
  }
  builder.setInsertionPoint(function);
  fresh = func::FuncOp::create(builder, function.getLoc(), function.getName(),
                               builder.getFunctionType(types, {}));
  fresh.setAllArgAttrs(attrs);
  Block *body = fresh.addEntryBlock();
  for (auto [old, value, layout] :
       llvm::zip(function.getArguments(), body->getArguments(), layouts)) {
    value.setLoc(old.getLoc());
    locals[old] = {value, layout};
  }
  builder.setInsertionPointToEnd(body);
}

Value Partitioner::converted(Value old, const TensorLayout &to) {
  const Local &from = locals[old];
  if (from.layout == to)
    return from.value;
  bool again = gathersAgain(old, from.layout);
  Attribute key = to.toAttr(builder.getContext());
  if (again)
    key = builder.getArrayAttr({key, nn::phaseOf(listener.current)});
  Value &value = cache[{old, key}];
  if (!value) {
    Value own = from.value;
    if (again)
      own = mem::BarrierOp::create(builder, old.getLoc(), own.getType(), own).getResult(0);
    value = resharded(old, own, to);
  }
  return value;
}

/// Returns the element type of the matmuls of which the op's result is a sum, through casts and
/// views; null if it is not, or if they differ.
Type Partitioner::termTypeOf(Operation *op) const {
  if (op->getNumResults() != 1)
    return {};
  ShardingRule rule = getRule(op);
  if (isMatmul(rule))
    return getElementTypeOrSelf(op->getResult(0).getType());
  bool isSumOfAll = rule.additive || op->getNumOperands() == 1;
  if (!isSumOfAll || rule.linear.size() != op->getNumOperands())
    return {};
  Type type;
  for (Value operand : op->getOperands()) {
    Type own = termTypes.lookup(operand);
    if (!own || (type && own != type))
      return {};
    type = own;
  }
  return type;
}

/// Converts `own`, the local part of an old value. A sum over axes of tensors or experts of matmuls
/// that were rounded to a 16-bit type is sent in that type, as Megatron-LM does: half the bytes of
/// f32.
Value Partitioner::resharded(Value old, Value own, const TensorLayout &to) {
  const TensorLayout &from = locals[old].layout;
  Type terms = termTypes.lookup(old), wide = getElementTypeOrSelf(own.getType());
  bool isSum = !from.partial.empty() && llvm::all_of(from.partial, [&](auto &part) {
    auto [axis, kind] = part;
    return kind == dist::Reduction::Sum && mesh.exchangesValues(axis) && !to.partialOn(axis);
  });
  if (!isSum || !terms || terms.getIntOrFloatBitWidth() != 16 || !wide.isF32() ||
      function->getParentOp()->hasAttr(dist::kWideSumsAttr))
    return reshard(builder, old.getLoc(), own, from, to, mesh);
  Location loc = old.getLoc();
  auto castTo = [&](Value value, Type element) -> Value {
    if (auto before = value.getDefiningOp<nn::CastOp>())
      if (getElementTypeOrSelf(before.getInput().getType()) == element)
        return before.getInput(); // widening loses nothing
    auto type = cast<RankedTensorType>(value.getType()).clone(element);
    return nn::CastOp::create(builder, loc, type, value);
  };
  return castTo(reshard(builder, loc, castTo(own, terms), from, to, mesh), wide);
}

/// Whether a backward op reads what axes of tensors or experts split of a forward value: it is then
/// gathered again, behind a barrier, and what the forward pass has gathered is not kept.
bool Partitioner::gathersAgain(Value old, const TensorLayout &layout) {
  Operation *source = old.getDefiningOp();
  if (!source || !listener.current || !nn::isInPhase(source, nn::Phase::Forward) ||
      !nn::isInPhase(listener.current, nn::Phase::Backward))
    return false;
  return llvm::any_of(layout.dims, [&](const DimAxes &axes) {
    return llvm::any_of(axes, [&](StringRef axis) { return mesh.exchangesValues(axis); });
  });
}

Value Partitioner::replicated(Value old) {
  return converted(old, TensorLayout::replicated(cast<RankedTensorType>(old.getType()).getRank()));
}

/// Clones an op onto local operands, with the local types of its results.
SmallVector<Value> Partitioner::cloneLocal(Operation *op, ValueRange operands,
                                           ArrayRef<TensorLayout> results) {
  SmallVector<Type> types;
  for (auto [old, layout] : llvm::zip(op->getResults(), results))
    types.push_back(localTypeOf(old, layout));
  return cloneAs(builder, op, operands, types)->getResults();
}

void Partitioner::define(Operation *op, ValueRange made, ArrayRef<TensorLayout> layouts) {
  for (auto [old, value, layout] : llvm::zip(op->getResults(), made, layouts))
    locals[old] = {value, layout};
}

//===- Ops ----------------------------------------------------------------===//

LogicalResult Partitioner::partitionOp(Operation *op) {
  ShardingRule rule = getRule(op);
  SmallVector<TensorLayout, 4> operands, results;
  for (Value operand : op->getOperands())
    operands.push_back(locals.lookup(operand).layout);
  for (Value result : op->getResults())
    results.push_back(*getLayout(result));
  FailureOr<Assignment> assignment = getAssignment(op, rule, operands, mesh, inBlocks);
  if (failed(assignment))
    return failure();

  LocalForm form;
  form.axes = assignment->factors;
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    form.operands.push_back(converted(operand, operandLayout(rule, *assignment, i)));
  for (auto [result, layout] : llvm::zip(op->getResults(), results))
    form.types.push_back(cast<RankedTensorType>(localTypeOf(result, layout)));

  SmallVector<Value> made;
  auto partitionable = dyn_cast<PartitionableOpInterface>(op);
  if (isa<dist::ConstrainOp>(op)) {
    made = form.operands;
  } else if (partitionable && !assignment->splitsNothing()) {
    FailureOr<SmallVector<Value>> values = partitionable.partition(builder, form);
    if (failed(values))
      return failure();
    made = *values;
  } else {
    made = cloneLocal(op, form.operands, results);
  }
  define(op, made, results);
  if (Type terms = termTypeOf(op))
    termTypes[op->getResult(0)] = terms;
  return success();
}

/// An update works on parts of the parameter's layout: element by element, block by block, or with
/// sums over all parts or the whole parameter, which shale-materialize-units gathers.
LogicalResult Partitioner::partitionUpdate(OptimizerUpdateOpInterface update) {
  Value param = update.getParameterOperand().get();
  TensorLayout layout = locals[param].layout;
  auto argument = dyn_cast<BlockArgument>(param);
  nn::StateOp state = argument ? nn::getState(argument) : nn::StateOp();
  if (!state)
    return update->emitOpError("must update a parameter that is an argument");
  std::optional<std::string> why = whyNotSplit(state, layout, mesh);
  auto part = state->getAttrOfType<nn::PartAttr>(nn::kPartAttr);
  auto group = dyn_cast<GroupUpdateOpInterface>(update.getOperation());
  bool isSplit =
      part || llvm::any_of(layout.dims, [](const DimAxes &axes) { return !axes.empty(); });
  if (isSplit && group && !group.gathersParameters() && !update->hasTrait<nn::NeedsMeansOnly>() &&
      !update->hasTrait<nn::NeedsBlocksOnly>())
    why = "it needs sums over the whole parameter";
  if (part && !update.hasElementwiseState() && !update->hasTrait<nn::NeedsBlocksOnly>())
    why = "its state is that of the whole parameter";
  if (why) {
    std::string name = (part ? part.getWhole().getValue() : state.getSymName()).str();
    return update->emitOpError("cannot update parts of '")
           << name << "' of " << param.getType() << ": " << *why
           << "; keep it whole with --tensor '" << name
           << "=whole', or use --optimizer adamw, lamb or muon, or a mesh without tensor axes";
  }
  SmallVector<OpOperand *> moments = update.getStateOperands();
  SmallVector<TensorLayout, 4> layouts{layout}; // of results
  for (OpOperand *moment : moments)
    layouts.push_back(stateLayout(moment->get().getType(), state, layout));
  SmallVector<Value> operands;
  for (OpOperand &operand : update->getOpOperands()) {
    auto moment = llvm::find(moments, &operand);
    if (moment != moments.end())
      operands.push_back(converted(operand.get(), layouts[1 + (moment - moments.begin())]));
    else if (&operand == &update.getParameterOperand() || &operand == &update.getGradientOperand())
      operands.push_back(converted(operand.get(), layout));
    else
      operands.push_back(replicated(operand.get()));
  }
  define(update, cloneLocal(update, operands, layouts), layouts);
  return success();
}

/// A sum over micro-batches has the layout of its parameter.
void Partitioner::partitionAccumulate(GradientAccumulationOpInterface accumulate) {
  auto type = cast<RankedTensorType>(accumulate->getResult(0).getType());
  TensorLayout layout = states.of(accumulate.getParameter(), type.getRank());
  SmallVector<Value> operands;
  for (Value operand : accumulate->getOperands())
    operands.push_back(converted(operand, layout));
  define(accumulate, cloneLocal(accumulate, operands, layout), layout);
}

/// A sum over all elements of its operands: those that the same axes split are summed together,
/// then over these axes.
void Partitioner::partitionReduction(Operation *op) {
  ElementReduction reduction(op);
  for (Value operand : op->getOperands()) {
    TensorLayout layout = locals[operand].layout;
    layout.partial.clear();
    AxisList axes;
    for (const DimAxes &list : layout.dims)
      axes.append(list.begin(), list.end());
    llvm::sort(axes);
    reduction.add(axes, converted(operand, layout));
  }
  define(op, reduction.build(builder), TensorLayout::replicated(0));
}

/// Returns states in their layouts and everything else whole.
void Partitioner::partitionReturn(Operation *op) {
  SmallVector<Value> results;
  for (OpOperand &operand : op->getOpOperands()) {
    nn::StateOp state =
        nn::getState(function, function.getResultAttr(operand.getOperandNumber(), nn::kStateAttr));
    results.push_back(state ? converted(operand.get(), states.of(state))
                            : replicated(operand.get()));
  }
  returnFrom(fresh, builder, op->getLoc(), results);
  if (ArrayAttr attrs = function.getAllResultAttrs())
    fresh.setAllResultAttrs(attrs);
}

LogicalResult Partitioner::run() {
  makeSignature();
  return rebuildFunction(function, fresh, listener, [&](Operation *op) -> LogicalResult {
    if (auto update = dyn_cast<OptimizerUpdateOpInterface>(op))
      return partitionUpdate(update);
    if (auto accumulate = dyn_cast<GradientAccumulationOpInterface>(op))
      return partitionAccumulate(accumulate), success();
    if (isa<ElementReductionOpInterface>(op))
      return partitionReduction(op), success();
    if (op->hasTrait<OpTrait::IsTerminator>())
      return partitionReturn(op), success();
    return partitionOp(op);
  });
}

namespace {
struct PartitionPass : impl::PartitionPassBase<PartitionPass> {
  using PartitionPassBase::PartitionPassBase;
  void runOnOperation() final {
    ModuleOp module = getOperation();
    dist::MeshOp mesh = meshOfFunctions(module);
    if (!mesh)
      return signalPassFailure();
    if (module->hasAttr(dist::kPartitionedAttr)) {
      module.emitError("is partitioned already");
      return signalPassFailure();
    }
    SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    for (func::FuncOp function : functions)
      if (failed(verifyHasLayouts(function)) || failed(verifyStateUses(function, mesh)))
        return signalPassFailure();
    StateLayouts states;
    if (failed(states.read(module, mesh)))
      return signalPassFailure();
    for (func::FuncOp function : functions)
      if (failed(Partitioner(function, mesh, states).run()))
        return signalPassFailure();
    module->setAttr(dist::kPartitionedAttr, UnitAttr::get(module.getContext()));
  }
};
} // namespace

} // namespace shale
