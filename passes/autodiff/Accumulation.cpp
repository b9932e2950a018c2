//===- Accumulation.cpp - Several micro-batches per step ------------------===//
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Support/DeadOps.h"
#include "lib/Support/Remarks.h"
#include "mlir/IR/IRMapping.h"
#include "passes/autodiff/Mean.h"
#include "passes/autodiff/StepBuilder.h"

using namespace mlir;
using namespace shale;

void StepBuilder::findMean() {
  Operation *terminator = function.getBody().front().getTerminator();
  Value loss = terminator->getOperand(0);
  sum = terminator->getOperand(1), count = terminator->getOperand(2);
  if (isMean(loss, sum, count))
    return;
  emitDecision(function.getLoc(), "autodiff",
               "the loss is not a sum divided by a count, so the losses of the " +
                   Twine(microbatches) + " micro-batches of a step are averaged");
  PhaseScope forward(builder, nn::Phase::Forward);
  sum = loss;
  count = nn::splat(builder, loss.getLoc(), cast<RankedTensorType>(loss.getType()), 1.0);
}

LogicalResult StepBuilder::accumulate() {
  if (failed(declareAccumulators()))
    return failure();
  makeAccumulate("accumulate_first", /*first=*/true);
  if (microbatches > 2)
    makeAccumulate("accumulate", /*first=*/false);
  addAccumulators();
  module->setAttr(nn::kAccumulateAttr, builder.getI64IntegerAttr(microbatches));
  return success();
}

FailureOr<nn::StateOp> StepBuilder::declareAccumulator(const Twine &name, Type type, nn::StateOp of,
                                                       Location loc) {
  std::string symbol = name.str();
  if (module.lookupSymbol(symbol))
    return function.emitError("the name @\"") << symbol << "\" of an accumulator is taken",
           failure();
  auto state = nn::StateOp::create(builder, loc, symbol, nn::Role::GradAccumulator, type);
  if (of)
    state.setOfAttr(FlatSymbolRefAttr::get(of));
  return state;
}

/// Declares one accumulator per trained parameter, in f32, and one each for the sum and the count
/// of the loss.
LogicalResult StepBuilder::declareAccumulators() {
  builder.setInsertionPoint(function);
  for (Trained &t : trained) {
    auto made = declareAccumulator(t.state.getSymName() + ".grad_accumulator",
                                   t.state.getTensorType().clone(builder.getF32Type()), t.state,
                                   t.state.getLoc());
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

/// Clones @step, which at this point ends with its gradients, and makes the clone add them to the
/// accumulators (or start the sums if `first`) and return the sums.
void StepBuilder::makeAccumulate(StringRef name, bool first) {
  func::FuncOp step = function;
  IRMapping mapping;
  function = cast<func::FuncOp>(step->clone(mapping));
  function.setSymName(name);
  builder.setInsertionPoint(step);
  builder.insert(function);
  Block &body = function.getBody().front();
  builder.setInsertionPoint(body.getTerminator());
  PhaseScope backward(builder, nn::Phase::Backward);
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> attrs;
  for (Trained &t : trained) {
    Value before =
        addArgument(t.accumulator.getTensorType(), stateAttr(t.accumulator), t.value.getLoc());
    Value gradient = toF32(mapping.lookup(t.gradient));
    results.push_back(nn::AccumulateOp::create(builder, t.state.getLoc(), gradient.getType(),
                                               t.state.getSymName(), gradient,
                                               first ? Value() : before));
    attrs.push_back(stateAttr(t.accumulator));
  }
  for (auto [state, value] : {std::pair(sumState, sum), std::pair(countState, count)}) {
    Value before = addArgument(scalarType(), stateAttr(state), value.getLoc());
    Value now = toF32(mapping.lookup(value));
    results.push_back(first ? now : nn::AddOp::create(builder, value.getLoc(), before, now));
    attrs.push_back(stateAttr(state));
  }
  returnStatistics([&](Value value) { return mapping.lookup(value); }, results, attrs);
  setResults(results, attrs);
  eraseDeadOps(body);
  function = step;
}

/// Returns the divisor of the step's loss, in the form of the micro-batch loss: the count, or 1 if
/// it is zero. A count of weights may be below one.
Value StepBuilder::divisorOf(Value count, Value loss) {
  auto quotient = loss.getDefiningOp<nn::DivOp>();
  if (!quotient || quotient.getRhs().getDefiningOp<nn::MaxOp>())
    return nn::MaxOp::create(builder, count.getLoc(), count, constant(1));
  Value isPositive = compare(nn::Predicate::GT, count, constant(0));
  return select(isPositive, count, constant(1));
}

/// Adds the accumulators to the gradients, loss and count of the last micro-batch, which @step
/// computes.
void StepBuilder::addAccumulators() {
  Operation *terminator = function.getBody().front().getTerminator();
  builder.setInsertionPoint(terminator);
  for (Trained &t : trained) {
    PhaseScope backward(builder, nn::Phase::Backward);
    Value before =
        addArgument(t.accumulator.getTensorType(), stateAttr(t.accumulator), t.value.getLoc());
    Value gradient = toF32(t.gradient);
    t.gradient = nn::AccumulateOp::create(builder, t.state.getLoc(), gradient.getType(),
                                          t.state.getSymName(), gradient, before);
    if (t.gradient.getType() != t.value.getType())
      t.gradient = nn::CastOp::create(builder, t.state.getLoc(), t.value.getType(), t.gradient);
  }
  PhaseScope update(builder, nn::Phase::Update);
  for (auto [state, value] : {std::pair(sumState, &sum), std::pair(countState, &count)}) {
    Value before = addArgument(scalarType(), stateAttr(state), value->getLoc());
    *value = nn::AddOp::create(builder, value->getLoc(), before, toF32(*value));
  }
  count = divisorOf(count, terminator->getOperand(0));
  terminator->setOperand(0, nn::DivOp::create(builder, sum.getLoc(), sum, count));
}
