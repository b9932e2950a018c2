//===- Update.cpp - Clipping and the optimizer ----------------------------===//
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Support/PrintIR.h"
#include "passes/autodiff/StepBuilder.h"
#include <limits>

using namespace mlir;
using namespace shale;

/// Returns the largest number of states that a parameter has.
size_t StepBuilder::mostSlots() {
  size_t most = 0;
  for (Trained &t : trained)
    most = std::max(most, nn::getOptimizer(t.state, optimizer).slots.size());
  return most;
}

LogicalResult StepBuilder::declareMoments() {
  builder.setInsertionPoint(function);
  auto policy = module->getAttrOfType<nn::PrecisionAttr>(nn::kPrecisionAttr);
  for (Trained &t : trained) {
    const nn::Optimizer &own = nn::getOptimizer(t.state, optimizer);
    if (own.integerState && policy && !policy.getOptimizer().isF32())
      return module.emitError("the state of optimizer '")
             << own.name << "' has a type of its own, and cannot be " << policy.getOptimizer()
             << ": leave out --optimizer-dtype";
  }
  for (size_t i = 0, e = mostSlots(); i < e; ++i)
    for (Trained &t : trained) {
      const nn::Optimizer &own = nn::getOptimizer(t.state, optimizer);
      if (i >= own.slots.size())
        continue;
      StringRef slot = own.slots[i];
      std::string name = (t.state.getSymName() + "." + slot).str();
      if (module.lookupSymbol(name))
        return t.state.emitError("its ")
               << slot << " is to be named @\"" << name << "\", which is taken";
      RankedTensorType type = t.state.getTensorType();
      if (own.stateShape)
        type = type.clone(own.stateShape(type.getShape()));
      if (own.integerState)
        type = type.clone(builder.getI32Type());
      auto moment = nn::StateOp::create(builder, t.state.getLoc(), name, nn::Role::Moment, type);
      moment.setSlot(slot);
      moment.setOfAttr(FlatSymbolRefAttr::get(t.state));
      t.moments.push_back(moment);
      t.momentValues.push_back(
          addArgument(moment.getTensorType(), stateAttr(moment), t.value.getLoc()));
    }
  module->setAttr(nn::kOptimizerAttr, builder.getStringAttr(optimizer.name));
  return success();
}

void StepBuilder::declareHypers() {
  auto hyper = [&](const nn::HyperParameter &hyper) {
    return addArgument(scalarType(), roleAndName(nn::Role::Hyper, hyper.name),
                       NameLoc::get(builder.getStringAttr(hyper.name)));
  };
  for (const nn::HyperParameter *parameter : nn::getHyperParameters(optimizer)) {
    // A step that is skipped because of its loss scale is no reason to stop, and the settings of
    // the next step depend on it: the process waits for each step.
    if (parameter->source == nn::HyperSource::PreviousEnable &&
        (!target.runsAhead() || scale.value))
      continue;
    hypers[parameter->name] = hyper(*parameter);
  }
}

// Operands are in the order that OptimizerUpdateOpInterface prescribes.
void StepBuilder::update(Trained &t, Value enable, Value scale) {
  const nn::Optimizer &own = nn::getOptimizer(t.state, optimizer);
  OperationState made(t.state.getLoc(), own.opName());
  made.addOperands({t.value, t.gradient});
  made.addOperands(t.momentValues);
  made.addOperands({enable, scale});
  for (const nn::HyperParameter &hyper : nn::getOperandHypers(optimizer, own))
    made.addOperands(hypers.lookup(hyper.name));
  // Each operand on its own, no rounding by random numbers, and no offset.
  SmallVector<int32_t> sizes(made.operands.size(), 1);
  sizes.append({0, 0});
  made.addAttribute(nn::AdamwOp::getOperandSegmentSizeAttr(), builder.getDenseI32ArrayAttr(sizes));
  made.addTypes(t.value.getType());
  made.addTypes(ValueRange(t.momentValues).getTypes());
  if (Attribute factors = t.state.getFactorsAttr())
    made.addAttribute(nn::AdamwOp::getFactorsAttrName(made.name), factors);
  t.results = builder.create(made)->getResults();
}

/// |x| < infinity.
Value StepBuilder::isFinite(Value scalar) {
  auto type = cast<RankedTensorType>(scalar.getType());
  Value magnitude = nn::AbsOp::create(builder, function.getLoc(), type, scalar);
  Value infinity =
      nn::splat(builder, function.getLoc(), type, std::numeric_limits<double>::infinity());
  return compare(nn::Predicate::LT, magnitude, infinity);
}

void StepBuilder::buildUpdate() {
  builder.setInsertionPoint(function.getBody().front().getTerminator());
  PhaseScope phase(builder, nn::Phase::Update);
  Location loc = function.getLoc();
  Value loss = function.getBody().front().getTerminator()->getOperand(0);
  SmallVector<Value> gradients;
  for (Trained &t : trained)
    gradients.push_back(toF32(t.gradient));
  Value squares = nn::SumSquaresOp::create(builder, withValueName(loc, "squared_norm"),
                                           scalarType(), gradients);
  Value norm = nn::SqrtOp::create(builder, withValueName(loc, "grad_norm"), scalarType(), squares);
  Value unscale = scale.value ? binary<nn::DivOp>(constant(divisor), scale.value) : Value();
  if (unscale)
    norm = binary<nn::MulOp>(norm, unscale);
  if (microbatches > 1)
    norm = binary<nn::DivOp>(norm, count);
  Value clipGradNorm = hypers.lookup(nn::kClipGradNorm.name);
  Value one = constant(1);
  // factor = clip > 0 ? min(1, clip / (norm + 1e-6)) : 1, as PyTorch's clip_grad_norm_.
  Value ratio = binary<nn::DivOp>(clipGradNorm, binary<nn::AddOp>(norm, constant(1e-6)));
  Value clips = compare(nn::Predicate::GT, clipGradNorm, constant(0));
  Value factor = select(clips, binary<nn::MinOp>(ratio, one), one);
  if (unscale)
    factor = binary<nn::MulOp>(factor, unscale);
  if (microbatches > 1)
    factor = binary<nn::DivOp>(factor, count);
  Value finiteNorm = isFinite(norm);
  Value finite = binary<nn::AndOp>(isFinite(loss), finiteNorm);
  Value enable = binary<nn::AndOp>(
      finite, compare(nn::Predicate::LE, norm, hypers.lookup(nn::kNormLimit.name)));
  if (Value previousEnable = hypers.lookup(nn::kPreviousEnable.name))
    enable = binary<nn::AndOp>(enable, compare(nn::Predicate::GT, previousEnable, constant(0)));
  factor.getDefiningOp()->setLoc(withValueName(loc, "clip_factor"));
  enable.getDefiningOp()->setLoc(withValueName(loc, "enable"));
  for (Trained &t : trained)
    update(t, enable, factor);
  if (scale.value)
    updateLossScale(finite); // a norm above the limit is no reason for another scale
  finish(norm, enable);
}

void StepBuilder::finish(Value norm, Value enable) {
  SmallVector<Value> results{function.getBody().front().getTerminator()->getOperand(0), norm,
                             enable};
  SmallVector<DictionaryAttr> attrs{metric("loss"), metric("grad_norm"), metric("enable")};
  if (scale.value) {
    results.push_back(scale.value);
    attrs.push_back(metric("loss_scale"));
  }
  for (Trained &t : trained) {
    results.push_back(t.results[0]);
    attrs.push_back(stateAttr(t.state));
  }
  for (size_t i = 0, e = mostSlots(); i < e; ++i)
    for (Trained &t : trained) {
      if (i >= t.moments.size())
        continue;
      results.push_back(t.results[i + 1]);
      attrs.push_back(stateAttr(t.moments[i]));
    }
  returnStatistics([](Value value) { return value; }, results, attrs);
  for (const Scaling &scaling : {scale, goodSteps})
    if (scaling.value) {
      results.push_back(scaling.next);
      attrs.push_back(stateAttr(scaling.state));
    }
  setResults(results, attrs);
}
