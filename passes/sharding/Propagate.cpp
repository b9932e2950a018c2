//===- Propagate.cpp - Gives every value a sharding -----------------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Ops/State.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/sharding/Layout.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/Rebuild.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_PROPAGATEPASS
#include "passes/sharding/Passes.h.inc"

namespace {

/// The state of one op during propagation.
struct OpState {
  ShardingRule rule;
  Assignment assignment;
};

class Propagation {
public:
  Propagation(func::FuncOp function, dist::MeshOp mesh)
      : function(function), mesh(mesh), axes(axesByPriority(mesh)) {}

  LogicalResult run();
  /// Warns of values of the forward pass that are gathered over a tensor axis. Returns whether
  /// there are any.
  bool warnOfGathers();

private:
  LogicalResult seedArguments();
  FailureOr<Layout> inputLayout(BlockArgument argument);
  void seedConstraint(dist::ConstrainOp op);
  Layout layoutOf(Value value);
  bool split(OpState &state, int64_t factor, StringRef axis);
  bool forward(Operation *op, StringRef axis);
  bool backward(Operation *op, StringRef axis);
  bool keeps(Operation *op, ArrayRef<int64_t> operands, StringRef axis);
  void keepPartialSums();
  void forGathers(llvm::function_ref<void(OpOperand &, StringRef axis, int64_t dim)> visit);
  LogicalResult verifyReads();
  void write();

  func::FuncOp function;
  dist::MeshOp mesh;
  AxisList axes;
  llvm::DenseMap<Operation *, OpState> states;
  llvm::DenseMap<Value, Layout> fixed; // arguments, and results of updates
};

bool isTensor(Value value) { return isa<RankedTensorType>(value.getType()); }

int64_t rankOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getRank() : 0;
}

} // namespace

//===- Seeds --------------------------------------------------------------===//

/// Returns the layout of an input: its batch dimension is split over the data axes.
FailureOr<Layout> Propagation::inputLayout(BlockArgument argument) {
  unsigned index = argument.getArgNumber();
  Layout layout = Layout::replicated(rankOf(argument));
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
    if (mesh.isDataAxis(axis)) {
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

LogicalResult Propagation::seedArguments() {
  llvm::StringMap<Layout> params;
  for (BlockArgument argument : function.getArguments()) {
    unsigned index = argument.getArgNumber();
    if (auto attr = function.getArgAttrOfType<dist::ShardingAttr>(index, dist::kShardingAttr)) {
      Layout layout = Layout::from(attr);
      dropSingletons(layout, mesh);
      fixed[argument] = layout;
    } else {
      FailureOr<Layout> layout = inputLayout(argument);
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
    if (param && params.count(param.getSymName()))
      fixed[argument] =
          stateLayout(argument.getType(), param.getType(), params[param.getSymName()]);
  }
  return success();
}

/// Seeds the splits of a constraint. It determines all axes except data axes that it
/// does not name.
void Propagation::seedConstraint(dist::ConstrainOp op) {
  OpState &state = states[op];
  Layout layout = Layout::from(op.getSharding());
  dropSingletons(layout, mesh);
  for (StringRef axis : axes)
    if (int64_t f = projectAxis(state.rule, state.rule.results[0], layout, axis, mesh); f >= 0)
      split(state, f, axis);
}

//===- One step -----------------------------------------------------------===//

Layout Propagation::layoutOf(Value value) {
  auto it = fixed.find(value);
  if (it != fixed.end())
    return it->second;
  auto result = dyn_cast<OpResult>(value);
  auto state = result ? states.find(result.getOwner()) : states.end();
  if (state == states.end())
    return Layout::replicated(rankOf(value));
  return resultLayout(state->second.rule, state->second.assignment, result.getResultNumber());
}

bool Propagation::split(OpState &state, int64_t factor, StringRef axis) {
  int64_t size = mesh.getSize(axis);
  if (!canSplit(state.rule, state.assignment, factor, size))
    return false;
  state.assignment.factors[factor].push_back({axis, size});
  return true;
}

/// Whether propagation may still split `op` over `axis`.
static bool isOpen(Operation *op, const OpState &state, StringRef axis, dist::MeshOp mesh) {
  return state.assignment.factorOf(axis) < 0 &&
         (!isa<dist::ConstrainOp>(op) || mesh.isDataAxis(axis));
}

bool Propagation::forward(Operation *op, StringRef axis) {
  OpState &state = states[op];
  if (!isOpen(op, state, axis, mesh))
    return false;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    int64_t factor = projectAxis(state.rule, state.rule.operands[i], layoutOf(operand), axis, mesh);
    if (factor >= 0 && split(state, factor, axis))
      return true;
  }
  return false;
}

/// Propagates a split with which a user reads a result to the op.
bool Propagation::backward(Operation *op, StringRef axis) {
  OpState &state = states[op];
  if (!isOpen(op, state, axis, mesh))
    return false;
  for (OpResult result : op->getResults())
    for (OpOperand &use : result.getUses()) {
      auto user = states.find(use.getOwner());
      if (user == states.end())
        continue;
      Layout wanted =
          operandLayout(user->second.rule, user->second.assignment, use.getOperandNumber());
      int64_t factor =
          projectAxis(state.rule, state.rule.results[result.getResultNumber()], wanted, axis, mesh);
      if (factor >= 0 && split(state, factor, axis))
        return true;
    }
  return false;
}

/// Whether `op` computes with partial sums in `operands`. On a tensor axis only if nothing else
/// does: otherwise the value is summed once, for all of its users.
bool Propagation::keeps(Operation *op, ArrayRef<int64_t> operands, StringRef axis) {
  if (operands.empty())
    return false;
  return mesh.isDataAxis(axis) ||
         (op->getNumResults() == 1 &&
          llvm::all_of(operands, [&](int64_t i) { return op->getOperand(i).hasOneUse(); }));
}

/// Runs in program order after all splits are known: operands come before users.
void Propagation::keepPartialSums() {
  for (Operation &op : function.getBody().front()) {
    auto it = states.find(&op);
    if (it == states.end())
      continue;
    SmallVector<Layout, 4> operands;
    for (Value operand : op.getOperands())
      operands.push_back(layoutOf(operand));
    for (StringRef axis : axes) {
      if (it->second.assignment.factorOf(axis) >= 0 || isa<dist::ConstrainOp>(op))
        continue;
      SmallVector<int64_t> kept = keptOperands(it->second.rule, operands, axis);
      if (keeps(&op, kept, axis))
        it->second.assignment.kept.emplace_back(axis, kept);
    }
  }
}

//===- Driver -------------------------------------------------------------===//

/// Visits the operands that an op needs whole over a tensor axis which splits a dimension of them.
void Propagation::forGathers(llvm::function_ref<void(OpOperand &, StringRef, int64_t)> visit) {
  for (Operation &op : function.getBody().front()) {
    auto state = states.find(&op);
    if (state == states.end())
      continue;
    for (OpOperand &operand : op.getOpOperands()) {
      Layout have = layoutOf(operand.get());
      Layout read =
          operandLayout(state->second.rule, state->second.assignment, operand.getOperandNumber());
      for (StringRef axis : axes)
        if (int64_t dim = have.dimOf(axis);
            !mesh.isDataAxis(axis) && dim >= 0 && read.dimOf(axis) < 0)
          visit(operand, axis, dim);
    }
  }
}

static nn::StateOp plannedParameter(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  nn::StateOp state = argument ? nn::getState(argument) : nn::StateOp();
  return state && state->hasAttr(dist::kTensorAttr) ? state : nn::StateOp();
}

/// Fails if an op reads a parameter whole that the plan splits over tensor axes: every rank would
/// hold all of it.
LogicalResult Propagation::verifyReads() {
  LogicalResult result = success();
  forGathers([&](OpOperand &operand, StringRef axis, int64_t dim) {
    nn::StateOp param = plannedParameter(operand.get());
    if (!param || failed(result))
      return;
    result = operand.getOwner()->emitOpError("needs parameter '")
             << param.getSymName() << "' whole, but the plan splits its dimension " << dim
             << " over axis '" << axis << "': use --tensor " << param.getSymName() << "=whole";
  });
  return result;
}

bool Propagation::warnOfGathers() {
  llvm::SmallSetVector<Value, 4> gathered;
  Operation *reader = nullptr;
  forGathers([&](OpOperand &operand, StringRef, int64_t) {
    nn::PhaseAttr phase = nn::phaseOf(operand.getOwner());
    if (isa<BlockArgument>(operand.get()) || !phase || phase.getValue() != nn::Phase::Forward)
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

void Propagation::write() {
  MLIRContext *context = function.getContext();
  for (BlockArgument argument : function.getArguments())
    if (isTensor(argument))
      function.setArgAttr(argument.getArgNumber(), dist::kShardingAttr,
                          layoutOf(argument).toAttr(context));
  for (Operation &op : function.getBody().front()) {
    if (op.getNumResults() == 0)
      continue;
    SmallVector<Attribute> list;
    for (Value result : op.getResults())
      list.push_back(layoutOf(result).toAttr(context));
    op.setAttr(dist::kShardingsAttr, ArrayAttr::get(context, list));
  }
}

LogicalResult Propagation::run() {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return function.emitError("must have one block to be partitioned");
  if (failed(seedArguments()))
    return failure();
  Block &body = function.getBody().front();
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator()) {
    // An update has the layout of its parameter: nothing propagates through it.
    if (auto update = dyn_cast<OptimizerUpdateOpInterface>(op)) {
      Value param = update.getParameterOperand().get();
      Layout layout = layoutOf(param);
      for (Value result : op.getResults())
        fixed[result] = stateLayout(result.getType(), param.getType(), layout);
      continue;
    }
    // Replicated here; partition and materialize-units apply them to parts.
    if (isa<GradientPartsOpInterface>(op))
      continue;
    OpState &state = states[&op];
    state.rule = getRule(&op);
    state.assignment.factors.resize(state.rule.factors.size());
    ops.push_back(&op);
  }
  for (Operation *op : ops)
    if (auto constraint = dyn_cast<dist::ConstrainOp>(op))
      seedConstraint(constraint);
  for (StringRef axis : axes)
    for (bool changed = true; changed;) {
      changed = false;
      for (Operation *op : ops)
        changed |= forward(op, axis);
      if (changed)
        continue;
      for (Operation *op : llvm::reverse(ops))
        changed |= backward(op, axis);
    }
  keepPartialSums();
  if (failed(verifyReads()))
    return failure();
  write();
  return success();
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
      Propagation propagation(function, mesh);
      if (failed(propagation.run()))
        return signalPassFailure();
      warned = warned || propagation.warnOfGathers();
    }
  }
};
} // namespace

} // namespace shale
