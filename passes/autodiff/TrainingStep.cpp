//===- TrainingStep.cpp - From @forward to @step and @evaluate ------------===//
#include "passes/autodiff/TrainingStep.h"
#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/autodiff/GradientBuilder.h"
#include "passes/autodiff/Mean.h"
#include "llvm/ADT/bit.h"
#include <limits>

using namespace mlir;

namespace shale {

namespace {

/// A trained parameter while the step is built.
struct Trained {
  nn::StateOp state;
  Value value;                        // argument of @step
  Value gradient;
  nn::StateOp accumulator;            // with several micro-batches per step
  SmallVector<nn::StateOp> moments;   // in the order of the update's operands
  SmallVector<Value> momentValues;
  SmallVector<Value> results;         // new parameter, then new moments
};

/// Gives inserted ops the phase update.
struct UpdateListener : OpBuilder::Listener {
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    op->setAttr(nn::kPhaseAttr,
                nn::PhaseAttr::get(op->getContext(), nn::Phase::Update));
  }
};

class StepBuilder {
public:
  StepBuilder(ModuleOp module, func::FuncOp forward, Optimizer optimizer,
              int64_t microbatches)
      : module(module), function(forward), optimizer(optimizer),
        microbatches(microbatches), builder(module.getContext()) {}

  LogicalResult build();

private:
  LogicalResult checkForward();
  void makeEvaluate();
  LogicalResult declareMoments();
  LogicalResult buildBackward();
  void findMean();
  FailureOr<nn::StateOp> declareAccumulator(const Twine &name, Type type,
                                            nn::StateOp of, Location loc);
  LogicalResult declareAccumulators();
  void makeAccumulate(StringRef name, bool first);
  void addAccumulators();
  void buildUpdate();
  void update(Trained &trained, Value enable, Value scale);
  void finish(Value norm, Value enable);
  void declareLossScale();
  void updateLossScale(Value enable);

  RankedTensorType scalarType() { return RankedTensorType::get({}, builder.getF32Type()); }
  NamedAttribute named(StringRef key, Attribute value) {
    return builder.getNamedAttr(key, value);
  }
  DictionaryAttr metric(StringRef name) {
    return builder.getDictionaryAttr(
        {named(nn::kRoleAttr,
               nn::RoleAttr::get(builder.getContext(), nn::Role::Metric)),
         named(nn::kNameAttr, builder.getStringAttr(name))});
  }
  DictionaryAttr stateAttr(nn::StateOp state) {
    return builder.getDictionaryAttr(named(
        nn::kStateAttr,
        FlatSymbolRefAttr::get(builder.getContext(), state.getSymName())));
  }
  Value addArgument(Type type, DictionaryAttr attrs, Location loc) {
    unsigned index = function.getNumArguments();
    (void)function.insertArgument(index, type, attrs, loc);
    return function.getArgument(index);
  }
  Value hyper(StringRef name) {
    auto attrs = builder.getDictionaryAttr(
        {named(nn::kRoleAttr,
               nn::RoleAttr::get(builder.getContext(), nn::Role::Hyper)),
         named(nn::kNameAttr, builder.getStringAttr(name))});
    return addArgument(scalarType(), attrs,
                       NameLoc::get(builder.getStringAttr(name)));
  }
  Value constant(double value) {
    return nn::splat(builder, function.getLoc(), scalarType(), value);
  }
  /// Converts a float tensor to f32.
  Value toF32(Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getElementType().isF32())
      return value;
    return nn::CastOp::create(builder, value.getLoc(),
                              type.clone(builder.getF32Type()), value);
  }
  /// Builds the test whether a scalar is finite: |x| < infinity.
  Value isFinite(Value scalar) {
    Location loc = function.getLoc();
    auto type = cast<RankedTensorType>(scalar.getType());
    Value magnitude = nn::AbsOp::create(builder, loc, type, scalar);
    Value infinity = nn::splat(builder, loc, type,
                               std::numeric_limits<double>::infinity());
    return nn::CompareOp::create(builder, loc,
                                 type.clone(builder.getI1Type()),
                                 nn::Predicate::LT, magnitude, infinity);
  }

  ModuleOp module;
  func::FuncOp function;
  Optimizer optimizer;
  int64_t microbatches;
  OpBuilder builder;
  std::vector<Trained> trained;
  llvm::StringMap<Value> hypers;
  /// A state of loss scaling, used if gradients pass through f16: the factor of the
  /// loss, or the number of consecutive good steps. State, argument, new value.
  struct Scaling {
    nn::StateOp state;
    Value value, next;
  };
  Scaling scale, goodSteps;
  /// Gradients of a sum over many labels would overflow f16 at loss scales that suit the
  /// mean. The seed is therefore divided by this power of two, which is at least the
  /// number of labels per step; unscaling multiplies by it again.
  double divisor = 1;
  // With several micro-batches per step: the sum and the count whose quotient is the
  // loss, of one micro-batch, later of the step.
  Value sum, count;
  nn::StateOp sumState, countState;
};

/// Erases ops whose results have no uses.
void removeDeadCode(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

} // namespace

LogicalResult StepBuilder::checkForward() {
  if (function.isExternal() || !function.getBody().hasOneBlock())
    return function.emitError("@forward must have one block");
  Operation *terminator = function.getBody().front().getTerminator();
  if (terminator->getNumOperands() != 3)
    return function.emitError(
        "@forward must return three scalars: loss, loss_sum and count");
  for (Value result : terminator->getOperands()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type || type.getRank() != 0 || !isa<FloatType>(type.getElementType()))
      return function.emitError("expected @forward to return float scalars, got ")
             << result.getType();
  }
  for (StringRef name : {"step", "evaluate", "accumulate", "accumulate_first"})
    if (module.lookupSymbol(name))
      return function.emitError("the module has a @") << name << " already";
  for (BlockArgument argument : function.getArguments()) {
    auto symbol = function.getArgAttrOfType<FlatSymbolRefAttr>(
        argument.getArgNumber(), nn::kStateAttr);
    if (!symbol)
      continue;
    auto state = module.lookupSymbol<nn::StateOp>(symbol.getAttr());
    if (!state || state.getTensorType() != argument.getType())
      return function.emitError("argument ")
             << argument.getArgNumber() << " is not of the type of the state "
             << symbol;
    if (state.isTrainedParameter()) {
      Trained next;
      next.state = state;
      next.value = argument;
      trained.push_back(std::move(next));
    }
  }
  if (trained.empty())
    return function.emitError("there is no parameter to train");
  return success();
}

void StepBuilder::makeEvaluate() {
  for (Operation &op : function.getBody().front().without_terminator())
    op.setAttr(nn::kPhaseAttr,
               nn::PhaseAttr::get(op.getContext(), nn::Phase::Forward));
  auto evaluate = cast<func::FuncOp>(function->clone());
  evaluate.setSymName("evaluate");
  builder.setInsertionPointAfter(function);
  builder.insert(evaluate);
  Block &body = evaluate.getBody().front();
  body.getTerminator()->eraseOperand(0);
  evaluate.setFunctionType(builder.getFunctionType(
      evaluate.getArgumentTypes(), body.getTerminator()->getOperandTypes()));
  SmallVector<DictionaryAttr> attrs{metric("loss_sum"), metric("count")};
  evaluate.setAllResultAttrs(attrs);
  // Replace random ops by their form for evaluation.
  for (auto random : llvm::make_early_inc_range(body.getOps<Stochastic>()))
    if (OpBuilder place(random); random.drawsRandom()) {
      random->replaceAllUsesWith(random.buildEvaluation(place));
      random->erase();
    }
  removeDeadCode(body);
  function.setSymName("step");
}

LogicalResult StepBuilder::declareMoments() {
  struct Kind {
    nn::Role role;
    const char *suffix;
  };
  SmallVector<Kind> kinds;
  if (optimizer == Optimizer::AdamW)
    kinds = {{nn::Role::Moment1, "moment1"}, {nn::Role::Moment2, "moment2"}};
  else
    kinds = {{nn::Role::Momentum, "momentum"}};
  builder.setInsertionPoint(function);
  for (Kind kind : kinds)
    for (Trained &t : trained) {
      std::string name = (t.state.getSymName() + "." + kind.suffix).str();
      if (module.lookupSymbol(name))
        return t.state.emitError("its ")
               << kind.suffix << " is to be named @\"" << name
               << "\", which is taken";
      auto moment = nn::StateOp::create(
          builder, t.state.getLoc(), builder.getStringAttr(name),
          nn::RoleAttr::get(builder.getContext(), kind.role),
          t.state.getTypeAttr(), /*init=*/Attribute(), /*names=*/ArrayAttr(),
          FlatSymbolRefAttr::get(builder.getContext(), t.state.getSymName()),
          /*unit=*/StringAttr(), /*trained=*/BoolAttr(),
          /*decay=*/FloatAttr());
      t.moments.push_back(moment);
      t.momentValues.push_back(addArgument(moment.getTensorType(),
                                           stateAttr(moment),
                                           t.value.getLoc()));
    }
  SmallVector<StringRef> names =
      optimizer == Optimizer::AdamW
          ? SmallVector<StringRef>{"lr", "beta1", "beta2", "eps",
                                   "weight_decay", "bias1", "bias2",
                                   "clip_grad_norm"}
          : SmallVector<StringRef>{"lr", "momentum", "weight_decay",
                                   "clip_grad_norm"};
  for (StringRef name : names)
    hypers[name] = hyper(name);
  return success();
}

/// Declares the loss scale if the policy lets gradients pass through f16.
void StepBuilder::declareLossScale() {
  auto policy = module->getAttrOfType<nn::PrecisionAttr>(nn::kPrecisionAttr);
  if (!policy || !policy.needsLossScale())
    return;
  constexpr double first = 65536;
  auto declare = [&](StringRef name, double init) -> Scaling {
    builder.setInsertionPoint(function);
    auto state = nn::StateOp::create(
        builder, function.getLoc(), builder.getStringAttr(name),
        nn::RoleAttr::get(builder.getContext(), nn::Role::LossScale),
        TypeAttr::get(scalarType()), nn::FillAttr::get(builder.getContext(), builder.getF64FloatAttr(init)),
        /*names=*/ArrayAttr(), /*of=*/FlatSymbolRefAttr(), /*unit=*/StringAttr(), /*trained=*/BoolAttr(),
        /*decay=*/FloatAttr());
    return {state, addArgument(scalarType(), stateAttr(state), function.getLoc()), Value()};
  };
  scale = declare("loss_scale", first);
  goodSteps = declare("loss_scale.good_steps", 0);
}

// As torch.amp.GradScaler: halves the scale after a skipped step, and doubles it
// after 2000 consecutive good ones.
void StepBuilder::updateLossScale(Value enable) {
  Location loc = function.getLoc();
  auto binary = [&](auto op, Value a, Value b) -> Value {
    return decltype(op)::create(builder, loc, a.getType(), a, b);
  };
  auto select = [&](Value condition, Value a, Value b) -> Value {
    return nn::SelectOp::create(builder, loc, a.getType(), condition, a, b);
  };
  Value good = binary(nn::AddOp(), goodSteps.value, constant(1));
  Value grows = nn::CompareOp::create(builder, loc, scalarType().clone(builder.getI1Type()), nn::Predicate::GE, good,
                                      constant(2000));
  Value grown = select(grows, binary(nn::MulOp(), scale.value, constant(2)), scale.value);
  scale.next = select(enable, grown, binary(nn::MulOp(), scale.value, constant(0.5)));
  goodSteps.next = select(enable, select(grows, constant(0), good), constant(0));
}

LogicalResult StepBuilder::buildBackward() {
  Block &body = function.getBody().front();
  SmallVector<Value> wanted;
  for (Trained &t : trained)
    wanted.push_back(t.value);
  GradientBuilder gradients(builder, body, wanted);
  builder.setInsertionPoint(body.getTerminator());
  Value loss = body.getTerminator()->getOperand(0);
  if (microbatches > 1) {
    // Gradients are those of the sum: the step divides by its whole count.
    findMean();
    loss = sum;
    // Count the labels of all micro-batches: each is a part of the step's mean, and their sum may be sent in f16.
    if (scale.value)
      divisor = countScale(count) * llvm::bit_ceil<uint64_t>(microbatches);
  }
  Value seed = scale.value;
  auto backward = nn::PhaseAttr::get(builder.getContext(), nn::Phase::Backward);
  if (!seed || divisor != 1) {
    seed = nn::splat(builder, loss.getLoc(), cast<RankedTensorType>(loss.getType()), 1 / divisor);
    seed.getDefiningOp()->setAttr(nn::kPhaseAttr, backward);
  }
  if (scale.value && divisor != 1) {
    seed = nn::MulOp::create(builder, loss.getLoc(), scalarType(), scale.value, seed);
    seed.getDefiningOp()->setAttr(nn::kPhaseAttr, backward);
  }
  gradients.accumulate(loss, seed);
  if (failed(gradients.run()))
    return failure();
  LogicalResult result = success();
  for (Trained &t : trained) {
    t.gradient = gradients.gradient(t.value);
    if (!t.gradient)
      result = t.state.emitError("the loss does not depend on the trained "
                                 "parameter '")
               << t.state.getSymName() << "': "
               << gradients.explainMissing(t.value)
               << "; freeze it, or leave it out of the model";
  }
  return result;
}

//===- Several micro-batches per step -------------------------------------===//

void StepBuilder::findMean() {
  Operation *terminator = function.getBody().front().getTerminator();
  Value loss = terminator->getOperand(0);
  sum = terminator->getOperand(1), count = terminator->getOperand(2);
  if (isMean(loss, sum, count))
    return;
  emitRemark(function.getLoc())
      << "the loss is no sum over a count: the losses of the "
      << microbatches << " micro-batches of a step are averaged";
  sum = loss;
  count = nn::splat(builder, loss.getLoc(),
                    cast<RankedTensorType>(loss.getType()), 1.0);
  count.getDefiningOp()->setAttr(nn::kPhaseAttr, nn::PhaseAttr::get(builder.getContext(), nn::Phase::Forward));
}

FailureOr<nn::StateOp>
StepBuilder::declareAccumulator(const Twine &name, Type type, nn::StateOp of,
                                Location loc) {
  std::string symbol = name.str();
  if (module.lookupSymbol(symbol))
    return function.emitError("the name @\"") << symbol << "\" of an accumulator is taken", failure();
  return nn::StateOp::create(
      builder, loc, builder.getStringAttr(symbol),
      nn::RoleAttr::get(builder.getContext(), nn::Role::GradAccumulator),
      TypeAttr::get(type), /*init=*/Attribute(), /*names=*/ArrayAttr(),
      of ? FlatSymbolRefAttr::get(builder.getContext(), of.getSymName())
         : FlatSymbolRefAttr(),
      /*unit=*/StringAttr(), /*trained=*/BoolAttr(), /*decay=*/FloatAttr());
}

/// Declares one accumulator per trained parameter, in f32, and one each for the sum
/// and the count of the loss.
LogicalResult StepBuilder::declareAccumulators() {
  builder.setInsertionPoint(function);
  for (Trained &t : trained) {
    auto made = declareAccumulator(t.state.getSymName() + ".grad_accumulator",
                                   t.state.getTensorType().clone(builder.getF32Type()), t.state, t.state.getLoc());
    if (failed(made))
      return failure();
    t.accumulator = *made;
  }
  auto first = declareAccumulator("loss_sum.accumulator", scalarType(), {}, function.getLoc());
  auto second = declareAccumulator("count.accumulator", scalarType(), {}, function.getLoc());
  if (failed(first) || failed(second))
    return failure();
  sumState = *first, countState = *second;
  return success();
}

/// Clones @step, which at this point ends with its gradients, and makes the clone
/// add them to the accumulators (or start the sums if `first`) and return the sums.
void StepBuilder::makeAccumulate(StringRef name, bool first) {
  func::FuncOp step = function;
  IRMapping mapping;
  function = cast<func::FuncOp>(step->clone(mapping));
  function.setSymName(name);
  builder.setInsertionPoint(step);
  builder.insert(function);
  Block &body = function.getBody().front();
  builder.setInsertionPoint(body.getTerminator());
  auto phase = nn::PhaseAttr::get(builder.getContext(), nn::Phase::Backward);
  auto mark = [&](Value value) {
    if (Operation *op = value.getDefiningOp(); op && !op->hasAttr(nn::kPhaseAttr))
      op->setAttr(nn::kPhaseAttr, phase);
    return value;
  };
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> attrs;
  for (Trained &t : trained) {
    Value before = addArgument(t.accumulator.getTensorType(),
                               stateAttr(t.accumulator), t.value.getLoc());
    Value gradient = mark(toF32(mapping.lookup(t.gradient)));
    results.push_back(mark(nn::AccumulateOp::create(
        builder, t.state.getLoc(), gradient.getType(), t.state.getSymName(),
        gradient, first ? Value() : before)));
    attrs.push_back(stateAttr(t.accumulator));
  }
  for (auto [state, value] :
       {std::pair(sumState, sum), std::pair(countState, count)}) {
    Value before = addArgument(scalarType(), stateAttr(state), value.getLoc());
    Value now = mark(toF32(mapping.lookup(value)));
    results.push_back(first ? now
                            : mark(nn::AddOp::create(builder, value.getLoc(),
                                                     before, now)));
    attrs.push_back(stateAttr(state));
  }
  body.getTerminator()->setOperands(results);
  function.setFunctionType(builder.getFunctionType(
      function.getArgumentTypes(), body.getTerminator()->getOperandTypes()));
  function.setAllResultAttrs(attrs);
  removeDeadCode(body);
  function = step;
}

/// Adds the accumulators to the gradients, loss and count of the last micro-batch,
/// which @step computes.
void StepBuilder::addAccumulators() {
  Block &body = function.getBody().front();
  builder.setInsertionPoint(body.getTerminator());
  auto phase = nn::PhaseAttr::get(builder.getContext(), nn::Phase::Backward);
  for (Trained &t : trained) {
    Value before = addArgument(t.accumulator.getTensorType(),
                               stateAttr(t.accumulator), t.value.getLoc());
    Value gradient = toF32(t.gradient);
    auto all = nn::AccumulateOp::create(builder, t.state.getLoc(),
                                        gradient.getType(),
                                        t.state.getSymName(), gradient, before);
    t.gradient = all;
    if (t.gradient.getType() != t.value.getType())
      t.gradient = nn::CastOp::create(builder, t.state.getLoc(),
                                      t.value.getType(), t.gradient);
    for (Operation *op : {gradient.getDefiningOp(), all.getOperation(),
                          t.gradient.getDefiningOp()})
      if (op && !op->hasAttr(nn::kPhaseAttr))
        op->setAttr(nn::kPhaseAttr, phase);
  }
  UpdateListener listener;
  builder.setListener(&listener);
  for (auto [state, value] :
       {std::pair(sumState, &sum), std::pair(countState, &count)}) {
    Value before = addArgument(scalarType(), stateAttr(state), value->getLoc());
    *value = nn::AddOp::create(builder, value->getLoc(), before, toF32(*value));
  }
  count = nn::MaxOp::create(builder, count.getLoc(), count, constant(1));
  Value loss = nn::DivOp::create(builder, sum.getLoc(), sum, count);
  body.getTerminator()->setOperand(0, loss);
  builder.setListener(nullptr);
}

void StepBuilder::update(Trained &t, Value enable, Value scale) {
  Location loc = t.state.getLoc();
  APFloat decay = t.state.getDecay().value_or(APFloat(1.0));
  auto h = [&](StringRef name) { return hypers.lookup(name); };
  Type type = t.value.getType();
  Operation *op;
  if (optimizer == Optimizer::AdamW)
    op = nn::AdamwOp::create(
        builder, loc, type, type, type, t.value, t.gradient,
        t.momentValues[0], t.momentValues[1], enable, scale, h("lr"),
        h("beta1"), h("beta2"), h("eps"), h("weight_decay"), h("bias1"),
        h("bias2"), /*offset=*/Value(), decay, /*segments=*/ArrayAttr());
  else
    op = nn::SgdOp::create(builder, loc, type, type, t.value, t.gradient,
                           t.momentValues[0], enable, scale, h("lr"),
                           h("momentum"), h("weight_decay"),
                           /*offset=*/Value(), decay,
                           /*segments=*/ArrayAttr());
  t.results.assign(op->result_begin(), op->result_end());
}

// scale = clip > 0 ? min(1, clip / (norm + 1e-6)) : 1, as PyTorch's
// clip_grad_norm_.
void StepBuilder::buildUpdate() {
  Location loc = function.getLoc();
  Value loss = function.getBody().front().getTerminator()->getOperand(0);
  SmallVector<Value> gradients;
  for (Trained &t : trained)
    gradients.push_back(toF32(t.gradient));
  auto binary = [&](auto op, Value a, Value b) -> Value {
    return decltype(op)::create(builder, loc, a.getType(), a, b);
  };
  Value squares =
      nn::SumSquaresOp::create(builder, loc, scalarType(), gradients);
  Value norm = nn::SqrtOp::create(builder, loc, scalarType(), squares);
  Value unscale = scale.value ? binary(nn::DivOp(), constant(divisor), scale.value) : Value();
  if (unscale)
    norm = binary(nn::MulOp(), norm, unscale);
  if (microbatches > 1)
    norm = binary(nn::DivOp(), norm, count);
  Value clip = hypers.lookup("clip_grad_norm"), one = constant(1);
  Value ratio =
      binary(nn::DivOp(), clip, binary(nn::AddOp(), norm, constant(1e-6)));
  auto boolType = scalarType().clone(builder.getI1Type());
  Value clips = nn::CompareOp::create(builder, loc, boolType,
                                      nn::Predicate::GT, clip, constant(0));
  Value factor =
      nn::SelectOp::create(builder, loc, scalarType(), clips,
                           binary(nn::MinOp(), ratio, one), one);
  if (unscale)
    factor = binary(nn::MulOp(), factor, unscale);
  if (microbatches > 1)
    factor = binary(nn::DivOp(), factor, count);
  Value enable = binary(nn::AndOp(), isFinite(loss), isFinite(norm));
  for (Trained &t : trained)
    update(t, enable, factor);
  if (scale.value)
    updateLossScale(enable);
  finish(norm, enable);
}

void StepBuilder::finish(Value norm, Value enable) {
  Operation *terminator = function.getBody().front().getTerminator();
  SmallVector<Value> results{terminator->getOperand(0), norm, enable};
  SmallVector<DictionaryAttr> attrs{metric("loss"), metric("grad_norm"),
                                    metric("enable")};
  if (scale.value) {
    results.push_back(scale.value);
    attrs.push_back(metric("loss_scale"));
  }
  for (Trained &t : trained) {
    results.push_back(t.results[0]);
    attrs.push_back(stateAttr(t.state));
  }
  for (size_t i = 0, e = trained.front().moments.size(); i < e; ++i)
    for (Trained &t : trained) {
      results.push_back(t.results[i + 1]);
      attrs.push_back(stateAttr(t.moments[i]));
    }
  for (const Scaling &scaling : {scale, goodSteps})
    if (scaling.value) {
      results.push_back(scaling.next);
      attrs.push_back(stateAttr(scaling.state));
    }
  terminator->setOperands(results);
  function.setFunctionType(builder.getFunctionType(
      function.getArgumentTypes(), terminator->getOperandTypes()));
  function.setAllResultAttrs(attrs);
}

LogicalResult StepBuilder::build() {
  if (failed(checkForward()))
    return failure();
  makeEvaluate();
  declareLossScale();
  if (failed(buildBackward()))
    return failure();
  if (microbatches > 1) {
    if (failed(declareAccumulators()))
      return failure();
    makeAccumulate("accumulate_first", /*first=*/true);
    if (microbatches > 2)
      makeAccumulate("accumulate", /*first=*/false);
    addAccumulators();
    module->setAttr(nn::kAccumulateAttr,
                    builder.getI64IntegerAttr(microbatches));
  }
  if (failed(declareMoments()))
    return failure();
  builder.setInsertionPoint(function.getBody().front().getTerminator());
  UpdateListener listener;
  builder.setListener(&listener);
  buildUpdate();
  builder.setListener(nullptr);
  removeDeadCode(function.getBody().front());
  return success();
}

std::optional<Optimizer> parseOptimizer(StringRef name) {
  if (name == "adamw")
    return Optimizer::AdamW;
  if (name == "sgd")
    return Optimizer::SGD;
  return std::nullopt;
}

LogicalResult buildTrainingStep(ModuleOp module, Optimizer optimizer,
                                int64_t microbatches) {
  if (microbatches < 1 || microbatches > 65535)
    return module.emitError("a step must consume from 1 to 65535 "
                            "micro-batches; got ")
           << microbatches;
  auto forward = module.lookupSymbol<func::FuncOp>("forward");
  if (!forward)
    return module.emitError("there is no function @forward to train");
  return StepBuilder(module, forward, optimizer, microbatches).build();
}

} // namespace shale
