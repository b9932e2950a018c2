//===- Propagate.cpp - Gives every value a sharding -----------------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Ops/State.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/Propagation.h"
#include "passes/sharding/Rebuild.h"
#include "passes/sharding/SplitUpdates.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_PROPAGATEPASS
#include "passes/sharding/Passes.h.inc"

namespace {

/// The layouts of a function.
class FunctionLayouts {
public:
  FunctionLayouts(func::FuncOp function, dist::MeshOp mesh)
      : function(function), mesh(mesh), axes(axesByPriority(mesh)) {}

  LogicalResult run();
  /// Warns of values of the forward pass that are gathered over a tensor axis. Returns whether
  /// there are any.
  bool warnOfGathers();

private:
  LogicalResult seedArguments();
  void seedUpdates();
  FailureOr<TensorLayout> inputLayout(BlockArgument argument);
  void forGathers(llvm::function_ref<void(OpOperand &, StringRef axis, int64_t dim)> visit);
  LogicalResult verifyReads();
  void write();

  func::FuncOp function;
  dist::MeshOp mesh;
  AxisList axes;
  llvm::DenseMap<Value, TensorLayout> fixed; // arguments, and results of updates
  std::optional<Propagation> layouts;
};

bool isTensor(Value value) { return isa<RankedTensorType>(value.getType()); }

int64_t rankOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getRank() : 0;
}

} // namespace

//===- Seeds --------------------------------------------------------------===//

/// Returns the layout of an input: its batch dimension is split over the data axes.
FailureOr<TensorLayout> FunctionLayouts::inputLayout(BlockArgument argument) {
  unsigned index = argument.getArgNumber();
  TensorLayout layout = TensorLayout::replicated(rankOf(argument));
  auto batch = function.getArgAttrOfType<IntegerAttr>(index, nn::kBatchDimAttr);
  if (!batch)
    return layout;
  auto type = cast<RankedTensorType>(argument.getType());
  int64_t dim = batch.getInt(), ranks = 1;
  if (dim < 0 || dim >= type.getRank()) {
    function.emitError("argument ") << index << " has no dimension " << dim;
    return failure();
  }
  for (StringRef axis : axes)
    if (mesh.splitsInputs(axis)) {
      layout.dims[dim].push_back(axis);
      ranks *= mesh.getSize(axis);
    }
  int64_t size = type.getDimSize(dim);
  if (size % ranks != 0) {
    auto name = function.getArgAttrOfType<StringAttr>(index, nn::kNameAttr);
    int64_t below = size / ranks * ranks;
    auto diag = emitError(argument.getLoc(), "a batch of ")
                << size << " in input '" << (name ? name.getValue() : "?")
                << "' does not divide over the " << ranks << " ranks of the data axes: use ";
    if (below > 0)
      diag << below << " or ";
    diag << below + ranks << ", or another multiple of " << ranks
         << ", or a mesh whose data axes have a product that divides " << size;
    return failure();
  }
  return layout;
}

LogicalResult FunctionLayouts::seedArguments() {
  llvm::StringMap<TensorLayout> params;
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (auto attr = function.getArgAttrOfType<dist::ShardingAttr>(index, dist::kShardingAttr)) {
      TensorLayout layout = TensorLayout::from(attr);
      dropSingletons(layout, mesh);
      nn::StateOp state = nn::getState(argument);
      if (layout.isInBlocks() && (!state || state.getRole() != nn::Role::Moment))
        return function.emitError("argument ")
               << index << " must be split into contiguous parts; got " << attr;
      fixed[argument] = layout;
    } else {
      FailureOr<TensorLayout> layout = inputLayout(argument);
      if (failed(layout))
        return failure();
      fixed[argument] = *layout;
    }
    if (auto state = function.getArgAttrOfType<FlatSymbolRefAttr>(index, nn::kStateAttr))
      params[state.getValue()] = fixed[argument];
  }
  // Optimizer state has the layout of its parameter.
  for (BlockArgument argument : function.getArguments()) {
    nn::StateOp state = nn::getState(argument);
    nn::StateOp param = state ? nn::getState(function, state.getOfAttr()) : nn::StateOp();
    if (!param || !params.count(param.getSymName()))
      continue;
    const TensorLayout &layout = params[param.getSymName()];
    bool isMoment = state.getRole() == nn::Role::Moment;
    fixed[argument] = isMoment ? stateLayout(argument.getType(), param, layout) : layout;
  }
  return success();
}

/// An update has the layout of its parameter.
void FunctionLayouts::seedUpdates() {
  for (auto update : function.getOps<OptimizerUpdateOpInterface>()) {
    Value param = update.getParameterOperand().get();
    auto known = fixed.find(param);
    TensorLayout layout =
        known != fixed.end() ? known->second : TensorLayout::replicated(rankOf(param));
    fixed[update->getResult(0)] = layout;
    auto argument = dyn_cast<BlockArgument>(param);
    nn::StateOp state = argument ? nn::getState(argument) : nn::StateOp();
    for (Value moment : update->getResults().drop_front())
      fixed[moment] = state ? stateLayout(moment.getType(), state, layout)
                            : TensorLayout::replicated(rankOf(moment)); // an error in Partition.cpp
  }
}

//===- Checks -------------------------------------------------------------===//

/// Visits the operands that an op needs whole over a tensor axis which splits a dimension of them.
void FunctionLayouts::forGathers(llvm::function_ref<void(OpOperand &, StringRef, int64_t)> visit) {
  layouts->forReads([&](OpOperand &operand, const TensorLayout &have, const TensorLayout &read) {
    for (StringRef axis : axes)
      if (int64_t dim = have.dimOf(axis);
          mesh.splitsValues(axis) && dim >= 0 && read.dimOf(axis) < 0)
        visit(operand, axis, dim);
  });
}

static nn::StateOp plannedParameter(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  nn::StateOp state = argument ? nn::getState(argument) : nn::StateOp();
  return state && state->hasAttr(dist::kTensorAttr) ? state : nn::StateOp();
}

/// Fails if an op reads a parameter whole that the plan splits over tensor axes: every rank would
/// hold all of it.
LogicalResult FunctionLayouts::verifyReads() {
  LogicalResult result = success();
  forGathers([&](OpOperand &operand, StringRef axis, int64_t dim) {
    nn::StateOp param = plannedParameter(operand.get());
    if (!param || failed(result))
      return;
    // The plan's splits contradict each other only where dist.constrain splits rows, too.
    bool splitsRows = llvm::any_of(function.getOps<dist::ConstrainOp>(), [&](auto constrain) {
      return TensorLayout::from(constrain.getSharding()).dimOf(axis) >= 0;
    });
    InFlightDiagnostic diag = operand.getOwner()->emitOpError("needs parameter '")
                              << param.getSymName() << "' whole, but the plan splits its dimension "
                              << dim << " over axis '" << axis << "'";
    if (splitsRows)
      diag << ", which also splits the rows between matmuls here: use --sequence-parallel false";
    else
      diag << ": use --tensor " << param.getSymName() << "=whole";
    result = diag;
  });
  return result;
}

/// Whether a value is computed with a parameter, unlike tables of positions.
static bool hasParameter(Value value) {
  SmallVector<Value> work{value};
  llvm::DenseSet<Value> seen;
  while (!work.empty()) {
    Value next = work.pop_back_val();
    auto argument = dyn_cast<BlockArgument>(next);
    nn::StateOp state = argument ? nn::getState(argument) : nn::StateOp();
    if (state && state.getRole() == nn::Role::Param)
      return true;
    if (Operation *op = next.getDefiningOp())
      for (Value operand : op->getOperands())
        if (seen.insert(operand).second)
          work.push_back(operand);
  }
  return false;
}

bool FunctionLayouts::warnOfGathers() {
  llvm::SmallSetVector<Value, 4> gathered;
  Operation *reader = nullptr;
  forGathers([&](OpOperand &operand, StringRef, int64_t) {
    // A constraint gathers on purpose.
    if (isa<dist::ConstrainOp>(operand.getOwner()))
      return;
    nn::PhaseAttr phase = nn::phaseOf(operand.getOwner());
    if (isa<BlockArgument>(operand.get()) || !phase || phase.getValue() != nn::Phase::Forward ||
        !hasParameter(operand.get()))
      return;
    reader = reader ? reader : operand.getOwner();
    gathered.insert(operand.get());
  });
  if (!reader)
    return false;
  reader->emitWarning("needs ") << gathered.front().getType()
                                << " whole, which tensor axes split: the forward pass gathers "
                                << gathered.size() << " such value"
                                << (gathered.size() > 1 ? "s" : "")
                                << ". Make the parameters before it =whole, or use a number of "
                                   "tensor ranks that divides its parts";
  return true;
}

//===- Driver -------------------------------------------------------------===//

void FunctionLayouts::write() {
  MLIRContext *context = function.getContext();
  for (BlockArgument argument : function.getArguments())
    if (isTensor(argument))
      function.setArgAttr(argument.getArgNumber(), dist::kShardingAttr,
                          layouts->layoutOf(argument).toAttr(context));
  for (Operation &op : function.getBody().front()) {
    if (op.getNumResults() == 0)
      continue;
    SmallVector<Attribute> list;
    for (Value result : op.getResults())
      list.push_back(layouts->layoutOf(result).toAttr(context));
    op.setAttr(dist::kShardingsAttr, ArrayAttr::get(context, list));
  }
  layouts->forOps([](Operation *op, const ShardingRule &, const Assignment &assignment) {
    setAssignment(op, assignment);
  });
}

LogicalResult FunctionLayouts::run() {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return function.emitError("must have one block to be partitioned");
  if (failed(seedArguments()))
    return failure();
  seedUpdates();
  SmallVector<Operation *> ops;
  for (Operation &op : function.getBody().front().without_terminator())
    if (Propagation::passes(&op))
      ops.push_back(&op);
  layouts.emplace(mesh, axes, ops);
  for (auto &[value, layout] : fixed)
    layouts->fix(value, layout);
  // A gradient is best computed in the layout of its parameter.
  for (auto update : function.getOps<OptimizerUpdateOpInterface>())
    if (auto param = fixed.find(update.getParameterOperand().get()); param != fixed.end())
      layouts->want(update.getGradientOperand().get(), param->second);
  layouts->run();
  if (failed(verifyReads()))
    return failure();
  write();
  return success();
}

LogicalResult sharding::propagate(func::FuncOp function, dist::MeshOp mesh) {
  return FunctionLayouts(function, mesh).run();
}

namespace {
struct PropagatePass : impl::PropagatePassBase<PropagatePass> {
  using PropagatePassBase::PropagatePassBase;
  void runOnOperation() final {
    ModuleOp module = getOperation();
    dist::MeshOp mesh = dist::getMesh(module);
    if (!mesh) {
      module.emitError("has no mesh: run --shale-annotate-mesh first");
      return signalPassFailure();
    }
    bool warned = false;
    for (auto function : module.getOps<func::FuncOp>()) {
      FunctionLayouts layouts(function, mesh);
      if (failed(layouts.run()))
        return signalPassFailure();
      warned = warned || layouts.warnOfGathers();
    }
  }
};
} // namespace

} // namespace shale
