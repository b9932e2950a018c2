//===- UpdateBuilder.cpp - Clipping and the optimizer ---------------------===//
#include "passes/autodiff/UpdateBuilder.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Optimizer.h"
#include "lib/Support/PrintIR.h"
#include <limits>

using namespace mlir;
using namespace shale;

/// Returns the largest number of states that a parameter has.
size_t UpdateBuilder::mostSlots() {
  size_t most = 0;
  for (Trained &t : trained)
    most = std::max(most, nn::getOptimizer(t.state, optimizer).slots.size());
  return most;
}

LogicalResult UpdateBuilder::declareMoments() {
  ModuleOp module = builder.getModule();
  builder.setInsertionPoint(builder.getFunction());
  auto policy = module->getAttrOfType<nn::PrecisionAttr>(nn::kPrecisionAttr);
  for (Trained &t : trained) {
    const nn::Optimizer &own = nn::getOptimizer(t.state, optimizer);
    if (own.integerState && policy && !policy.getOptimizer().isF32())
      return module.emitError("the state of optimizer '")
             << own.name << "' has a type of its own, and cannot be " << policy.getOptimizer()
             << ": leave out --optimizer-dtype";
  }
  slots.resize(trained.size());
  for (size_t i = 0, e = mostSlots(); i < e; ++i)
    for (auto [t, kept] : llvm::zip_equal(trained, slots)) {
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
      kept.states.push_back(moment);
      kept.values.push_back(
          builder.addArgument(moment.getTensorType(), builder.stateAttr(moment), t.value.getLoc()));
    }
  module->setAttr(nn::kOptimizerAttr, builder.getStringAttr(optimizer.name));
  return success();
}

void UpdateBuilder::declareHypers(bool runsAhead) {
  for (const nn::HyperParameter *hyper : nn::getHyperParameters(optimizer))
    if (runsAhead || hyper->source != nn::HyperSource::PreviousEnable)
      hypers[hyper->name] = builder.addArgument(builder.scalarType(),
                                                builder.roleAndName(nn::Role::Hyper, hyper->name),
                                                NameLoc::get(builder.getStringAttr(hyper->name)));
}

// Operands are in the order that OptimizerUpdateOpInterface prescribes.
void UpdateBuilder::update(Trained &t, Slots &kept, Value enable, Value scale) {
  const nn::Optimizer &own = nn::getOptimizer(t.state, optimizer);
  OperationState made(t.state.getLoc(), own.opName());
  made.addOperands({t.value, t.gradient});
  made.addOperands(kept.values);
  made.addOperands({enable, scale});
  for (const nn::HyperParameter &hyper : nn::getOperandHypers(optimizer, own))
    made.addOperands(hypers.lookup(hyper.name));
  // Each operand on its own, no rounding by random numbers, and no offset.
  SmallVector<int32_t> sizes(made.operands.size(), 1);
  sizes.append({0, 0});
  made.addAttribute(nn::AdamwOp::getOperandSegmentSizeAttr(), builder.getDenseI32ArrayAttr(sizes));
  made.addTypes(t.value.getType());
  made.addTypes(ValueRange(kept.values).getTypes());
  if (Attribute factors = t.state.getFactorsAttr())
    made.addAttribute(nn::AdamwOp::getFactorsAttrName(made.name), factors);
  kept.results = builder.create(made)->getResults();
}

/// Builds the test whether a scalar is finite: |x| < infinity.
static Value isFinite(StepFunctionBuilder &builder, Value scalar) {
  auto type = cast<RankedTensorType>(scalar.getType());
  Value magnitude = nn::AbsOp::create(builder, builder.getLoc(), type, scalar);
  Value infinity =
      nn::splat(builder, builder.getLoc(), type, std::numeric_limits<double>::infinity());
  return builder.compare(nn::Predicate::LT, magnitude, infinity);
}

StepChecks UpdateBuilder::build(LossScale &scale, Value count) {
  Location loc = builder.getLoc();
  Value loss = builder.getReturn()->getOperand(0);
  SmallVector<Value> gradients;
  for (Trained &t : trained)
    gradients.push_back(builder.toF32(t.gradient));
  RankedTensorType type = builder.scalarType();
  Value squares =
      nn::SumSquaresOp::create(builder, withValueName(loc, "squared_norm"), type, gradients);
  Value norm = nn::SqrtOp::create(builder, withValueName(loc, "grad_norm"), type, squares);
  Value unscale = scale.isUsed() ? scale.buildInverse() : Value();
  if (unscale)
    norm = builder.binary<nn::MulOp>(norm, unscale);
  if (count)
    norm = builder.binary<nn::DivOp>(norm, count);
  Value clipGradNorm = hypers.lookup(nn::kClipGradNorm.name);
  Value one = builder.constant(1);
  // factor = clip > 0 ? min(1, clip / (norm + 1e-6)) : 1, as PyTorch's clip_grad_norm_.
  Value ratio = builder.binary<nn::DivOp>(clipGradNorm,
                                          builder.binary<nn::AddOp>(norm, builder.constant(1e-6)));
  Value clips = builder.compare(nn::Predicate::GT, clipGradNorm, builder.constant(0));
  Value factor = builder.select(clips, builder.binary<nn::MinOp>(ratio, one), one);
  if (unscale)
    factor = builder.binary<nn::MulOp>(factor, unscale);
  if (count)
    factor = builder.binary<nn::DivOp>(factor, count);
  Value finiteNorm = isFinite(builder, norm);
  Value finite = builder.binary<nn::AndOp>(isFinite(builder, loss), finiteNorm);
  Value enable = builder.binary<nn::AndOp>(
      finite, builder.compare(nn::Predicate::LE, norm, hypers.lookup(nn::kNormLimit.name)));
  if (Value previousEnable = hypers.lookup(nn::kPreviousEnable.name))
    enable = builder.binary<nn::AndOp>(
        enable, builder.compare(nn::Predicate::GT, previousEnable, builder.constant(0)));
  factor.getDefiningOp()->setLoc(withValueName(loc, "clip_factor"));
  enable.getDefiningOp()->setLoc(withValueName(loc, "enable"));
  for (auto [t, kept] : llvm::zip_equal(trained, slots))
    update(t, kept, enable, factor);
  return {norm, finite, enable};
}

void UpdateBuilder::addStates(StepResults &results) {
  for (auto [t, kept] : llvm::zip_equal(trained, slots))
    results.add(kept.results[0], builder.stateAttr(t.state));
  for (size_t i = 0, e = mostSlots(); i < e; ++i)
    for (Slots &kept : slots)
      if (i < kept.states.size())
        results.add(kept.results[i + 1], builder.stateAttr(kept.states[i]));
}
