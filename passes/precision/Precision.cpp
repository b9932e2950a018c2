//===- Precision.cpp - Applies the precision policy to the IR -------------===//
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/State.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/precision/Passes.h"
#include "passes/precision/Regions.h"
#include "passes/precision/Saturate.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_PRECISIONPASS
#include "passes/precision/Passes.h.inc"

namespace {

Type elementOf(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor ? tensor.getElementType() : Type();
}

/// Whether the policy may change the type of the value.
bool isReal(Value value) {
  Type element = elementOf(value);
  return element && (element.isF32() || is16BitFloat(element));
}

/// Rewrites one function.
class Retyper {
public:
  Retyper(func::FuncOp function, nn::PrecisionAttr policy)
      : function(function), policy(policy), builder(function.getContext()),
        single(builder.getF32Type()), loss(lossRegion(function)) {
    // Sums of gradients are not rounded before they are cast to another type. If gradients are
    // reduced in the type that matmuls return, the matmuls round them.
    bool accumulates = function->getParentOfType<ModuleOp>()->hasAttr(nn::kAccumulateAttr);
    if (policy.getReduce() != policy.getParam() || accumulates)
      gradients = gradientRegion(function);
    if (is16BitFloat(policy.getParam()))
      beyond = valuesBeyond(function, policy.getParam());
  }

  void run() {
    Block &block = function.getBody().front();
    retypeArguments(block);
    for (Operation &op : llvm::make_early_inc_range(block.without_terminator()))
      if (auto precision = dyn_cast<PrecisionOpInterface>(op))
        retype(precision);
      else
        restoreOperands(&op);
    roundGradients(block);
    Operation *terminator = block.getTerminator();
    for (OpOperand &operand : terminator->getOpOperands())
      if (function.getResultAttr(operand.getOperandNumber(), nn::kRoleAttr) &&
          isReal(operand.get()))
        operand.set(castTo(operand.get(), single, terminator));
    function.setFunctionType(
        builder.getFunctionType(block.getArgumentTypes(), terminator->getOperandTypes()));
  }

private:
  /// Gives arguments the types of their states. Casts a parameter once if it is
  /// stored in a wider type than it is used in.
  void retypeArguments(Block &block) {
    for (BlockArgument argument : block.getArguments()) {
      nn::StateOp state = nn::getState(argument);
      if (!state || !isReal(argument))
        continue;
      setElement(argument, state.getTensorType().getElementType());
      if (state.getRole() != nn::Role::Param || elementOf(argument) == policy.getParam())
        continue;
      SmallVector<OpOperand *> uses;
      for (OpOperand &use : argument.getUses()) {
        auto update = dyn_cast<OptimizerUpdateOpInterface>(use.getOwner());
        if (!update || &update.getParameterOperand() != &use)
          uses.push_back(&use);
      }
      if (uses.empty())
        continue;
      Operation *first = uses.front()->getOwner();
      for (OpOperand *use : uses)
        if (use->getOwner()->isBeforeInBlock(first))
          first = use->getOwner();
      Value rounded = makeCast(argument, policy.getParam(), first, first);
      for (OpOperand *use : uses)
        use->set(rounded);
    }
  }

  void setElement(Value value, Type element) {
    if (elementOf(value) == element)
      return;
    value.setType(cast<RankedTensorType>(value.getType()).clone(element));
    changed.insert(value);
  }

  /// Builds a cast before `before`, with the phase and scope of `like`. What is computed from a
  /// finite constant beyond the type's range, as a masked score, becomes the largest finite number.
  Value makeCast(Value value, Type element, Operation *before, Operation *like) {
    builder.setInsertionPoint(before);
    if (is16BitFloat(element) && beyond.contains(value))
      value = saturate(builder, value, element, like);
    auto type = cast<RankedTensorType>(value.getType()).clone(element);
    auto made = nn::CastOp::create(builder, value.getLoc(), type, value);
    nn::copyPhaseAndScope(like, made);
    return made;
  }

  /// Returns the value in another type, for a use by `user`. A narrowing cast is
  /// placed after the definition of the value; a widening cast, whose result takes
  /// more memory, before its first user in each phase.
  Value castTo(Value value, Type element, Operation *user) {
    if (elementOf(value) == element)
      return value;
    // Widening is exact: narrowing back gives the original value.
    if (auto cast = value.getDefiningOp<nn::CastOp>())
      if (elementOf(cast.getInput()) == element && is16BitFloat(element))
        return cast.getInput();
    if (auto constant = value.getDefiningOp<nn::ConstantOp>())
      if (auto dense = dyn_cast<DenseElementsAttr>(constant.getValue()); dense && dense.isSplat())
        return splat(constant, dense, element);
    Operation *definition = value.getDefiningOp();
    bool narrows = is16BitFloat(element) && definition;
    nn::PhaseAttr phase = narrows ? nn::PhaseAttr() : nn::phaseOf(user);
    Value &made = casts[{value, {element, phase}}];
    if (!made)
      made = narrows ? makeCast(value, element, definition->getNextNode(), definition)
                     : makeCast(value, element, user, user);
    return made;
  }

  Value splat(nn::ConstantOp constant, DenseElementsAttr dense, Type element) {
    Value &made = casts[{constant.getResult(), {element, Attribute()}}];
    if (made)
      return made;
    builder.setInsertionPointAfter(constant);
    auto type = cast<RankedTensorType>(constant.getType()).clone(element);
    made = nn::splat(builder, constant.getLoc(), type,
                     clampedTo(element, dense.getSplatValue<APFloat>().convertToDouble()));
    made.getDefiningOp()->setDiscardableAttrs(constant->getDiscardableAttrDictionary());
    return made;
  }

  void retype(PrecisionOpInterface op) {
    if (auto update = dyn_cast<OptimizerUpdateOpInterface>(op.getOperation()))
      return retypeUpdate(update);
    bool full = loss.contains(op) || gradients.contains(op);
    if (isa<nn::CastOp>(op.getOperation()))
      return; // its result type is explicit
    if (isa<ElementwiseOpInterface>(op.getOperation()) && !full)
      return retypeElementwise(op);
    bool movesLow =
        op.movesOnly() && llvm::any_of(op->getOperands(), [&](Value v) { return low.contains(v); });
    Type follow = single,
         beside; // `beside`: of an operand of any type
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isReal(operand.get()) || !is16BitFloat(elementOf(operand.get())))
        continue;
      Numeric numeric = op.getOperandNumeric(operand.getOperandNumber());
      if (!full && numeric == Numeric::Follows)
        follow = elementOf(operand.get());
      else if (numeric == Numeric::Any)
        beside = elementOf(operand.get());
    }
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isReal(operand.get()))
        continue;
      switch (op.getOperandNumeric(operand.getOperandNumber())) {
      case Numeric::Compute:
        operand.set(castTo(operand.get(), policy.getParam(), op));
        break;
      case Numeric::Follows:
        operand.set(castTo(operand.get(), follow, op));
        break;
      case Numeric::Full:
      case Numeric::Accumulates:
        operand.set(castTo(operand.get(), single, op));
        break;
      case Numeric::Any: // the bias of a norm may be a constant beside a rounded scale
        if (beside && operand.get().getDefiningOp<nn::ConstantOp>() &&
            !isa<ElementwiseOpInterface>(op.getOperation()))
          operand.set(castTo(operand.get(), beside, op));
        break;
      }
    }
    for (OpResult result : op->getResults()) {
      if (!isReal(result) || is16BitFloat(elementOf(result)))
        continue; // narrow in the model already
      switch (op.getResultNumeric(result.getResultNumber())) {
      case Numeric::Compute:
        setElement(result, policy.getParam());
        break;
      case Numeric::Follows:
        setElement(result, follow);
        if (movesLow)
          low.insert(result);
        break;
      case Numeric::Accumulates:
        setElement(result, full ? single : policy.getParam());
        break;
      case Numeric::Full:
      case Numeric::Any:
        break;
      }
    }
  }

  /// Elementwise ops compute in f32. A result that other kinds of ops or another
  /// phase read is rounded. A result that only elementwise ops read is not: it will
  /// be in registers.
  void retypeElementwise(PrecisionOpInterface op) {
    auto isLow = [&](Value value) {
      return isReal(value) && (is16BitFloat(elementOf(value)) || low.contains(value));
    };
    if (llvm::none_of(op->getOperands(), isLow))
      return;
    DenseMap<Value, Value> widened;
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isReal(operand.get()) || !is16BitFloat(elementOf(operand.get())))
        continue;
      Value &wide = widened[operand.get()];
      if (!wide)
        wide = makeCast(operand.get(), single, op, op);
      operand.set(wide);
    }
    for (Value result : op->getResults()) {
      if (!isReal(result) || policy.getParam().isF32())
        continue;
      if (is16BitFloat(elementOf(result)))
        setElement(result, single);
      if (isInterior(result, nn::phaseOf(op))) {
        low.insert(result);
        continue;
      }
      SmallVector<OpOperand *> uses(llvm::make_pointer_range(result.getUses()));
      Value rounded = makeCast(result, policy.getParam(), op->getNextNode(), op);
      for (OpOperand *use : uses)
        use->set(rounded);
    }
  }

  /// Whether only elementwise ops and sums of the same phase read the value, directly
  /// or through ops that only move elements.
  bool isInterior(Value value, nn::PhaseAttr phase) {
    if (value.use_empty())
      return false;
    SmallVector<Value> work{value};
    while (!work.empty())
      for (OpOperand &use : work.pop_back_val().getUses()) {
        Operation *user = use.getOwner();
        auto precision = dyn_cast<PrecisionOpInterface>(user);
        if (!precision || nn::phaseOf(user) != phase)
          return false;
        if (isa<ElementwiseOpInterface>(user) ||
            (isa<IndexedOpInterface>(user) &&
             precision.getOperandNumeric(use.getOperandNumber()) == Numeric::Any))
          continue;
        if (!precision.movesOnly() || user->getNumOperands() != 1)
          return false;
        work.push_back(user->getResult(0));
      }
    return true;
  }

  /// Gives results the types of the operands that they update; scalars are f32.
  void retypeUpdate(OptimizerUpdateOpInterface update) {
    auto precision = cast<PrecisionOpInterface>(update.getOperation());
    for (OpOperand &operand : update->getOpOperands())
      if (isReal(operand.get()) &&
          precision.getOperandNumeric(operand.getOperandNumber()) == Numeric::Full)
        operand.set(castTo(operand.get(), single, update));
    update->getResult(0).setType(update.getParameterOperand().get().getType());
    for (auto [i, state] : llvm::enumerate(update.getStateOperands()))
      update->getResult(i + 1).setType(state->get().getType());
  }

  /// Casts operands back to f32 for an op without the interface `PrecisionOpInterface`.
  void restoreOperands(Operation *op) {
    for (OpOperand &operand : op->getOpOperands())
      if (isReal(operand.get()) && changed.count(operand.get()))
        operand.set(castTo(operand.get(), single, op));
  }

  /// Casts gradients to the reduce type for the update and the norm.
  void roundGradients(Block &block) {
    for (auto update : llvm::make_early_inc_range(block.getOps<OptimizerUpdateOpInterface>())) {
      Value gradient = update.getGradientOperand().get();
      if (!isReal(gradient) || elementOf(gradient) == policy.getReduce())
        continue;
      Operation *definition = gradient.getDefiningOp();
      if (!definition)
        continue;
      Value reduced;
      auto inner = gradient.getDefiningOp<nn::CastOp>();
      if (inner && elementOf(inner.getInput()) == policy.getReduce() &&
          is16BitFloat(policy.getReduce()))
        reduced = inner.getInput();
      else
        reduced = makeCast(gradient, policy.getReduce(), definition->getNextNode(), definition);
      gradient.replaceUsesWithIf(reduced, [](OpOperand &use) {
        if (auto update = dyn_cast<OptimizerUpdateOpInterface>(use.getOwner()))
          return &update.getGradientOperand() == &use;
        return isa<ElementReductionOpInterface>(use.getOwner());
      });
    }
  }

  func::FuncOp function;
  nn::PrecisionAttr policy;
  OpBuilder builder;
  Type single;
  OpSet loss, gradients;
  DenseSet<Value> beyond; ///< valuesBeyond() the param type
  DenseSet<Value> changed;
  /// Values in f32 inside a chain of elementwise ops with narrow inputs: results of
  /// the chain are rounded.
  DenseSet<Value> low;
  DenseMap<std::pair<Value, std::pair<Type, Attribute>>, Value> casts;
};

/// Returns the element type of a state under the policy, or null to keep its type.
Type storedType(nn::StateOp state, nn::PrecisionAttr policy) {
  switch (state.getRole()) {
  case nn::Role::Param:
  case nn::Role::Divided:
    return policy.getMaster();
  case nn::Role::Buffer:
    return policy.getBuffer();
  case nn::Role::Moment:
    return policy.getOptimizer();
  default:
    return {};
  }
}

struct PrecisionPass : impl::PrecisionPassBase<PrecisionPass> {
  using PrecisionPassBase::PrecisionPassBase;
  void runOnOperation() final {
    ModuleOp module = getOperation();
    auto policy = module->getAttrOfType<nn::PrecisionAttr>(nn::kPrecisionAttr);
    if (!policy || policy.isFull())
      return;
    for (auto state : module.getOps<nn::StateOp>())
      if (Type type = storedType(state, policy);
          type && state.getTensorType().getElementType().isF32())
        state.setType(state.getTensorType().clone(type));
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() && function.getBody().hasOneBlock())
        Retyper(function, policy).run();
  }
};

} // namespace

} // namespace shale
