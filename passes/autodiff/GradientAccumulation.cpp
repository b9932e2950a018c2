//===- GradientAccumulation.cpp - Several micro-batches per step ----------===//
#include "passes/autodiff/GradientAccumulation.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Optimizer.h"
#include "lib/Support/DeadOps.h"
#include "lib/Support/Remarks.h"
#include "mlir/IR/IRMapping.h"
#include "passes/autodiff/Mean.h"
#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace shale;

void GradientAccumulation::findMean() {
  Operation *terminator = builder.getReturn();
  Value loss = terminator->getOperand(0);
  sum = terminator->getOperand(1), count = terminator->getOperand(2);
  if (isMean(loss, sum, count))
    return;
  emitDecision(builder.getLoc(), "autodiff",
               "the loss is not a sum divided by a count, so the losses of the " +
                   Twine(microbatches) + " micro-batches of a step are averaged");
  PhaseScope forward(builder, nn::Phase::Forward);
  sum = loss;
  count = nn::splat(builder, loss.getLoc(), cast<RankedTensorType>(loss.getType()), 1.0);
}

double GradientAccumulation::boundLabels() const {
  // Each micro-batch is a part of the step's mean, and the sum of all may be sent in f16.
  return countScale(count) * llvm::bit_ceil<uint64_t>(microbatches);
}

LogicalResult GradientAccumulation::build(const RunningStatistics &statistics) {
  if (failed(declareAccumulators()))
    return failure();
  makeAccumulate("accumulate_first", /*first=*/true, statistics);
  if (microbatches > 2)
    makeAccumulate("accumulate", /*first=*/false, statistics);
  addAccumulators();
  builder.getModule()->setAttr(nn::kAccumulateAttr, builder.getI64IntegerAttr(microbatches));
  return success();
}

FailureOr<nn::StateOp> GradientAccumulation::declareAccumulator(const Twine &name, Type type,
                                                                nn::StateOp of, Location loc) {
  std::string symbol = name.str();
  if (builder.getModule().lookupSymbol(symbol))
    return builder.getFunction().emitError("the name @\"")
               << symbol << "\" of an accumulator is taken",
           failure();
  auto state = nn::StateOp::create(builder, loc, symbol, nn::Role::GradAccumulator, type);
  if (of)
    state.setOfAttr(FlatSymbolRefAttr::get(of));
  return state;
}

/// Declares one accumulator per trained parameter, in f32, and one each for the sum and the count
/// of the loss.
LogicalResult GradientAccumulation::declareAccumulators() {
  builder.setInsertionPoint(builder.getFunction());
  for (Trained &t : trained) {
    auto made = declareAccumulator(t.state.getSymName() + ".grad_accumulator",
                                   t.state.getTensorType().clone(builder.getF32Type()), t.state,
                                   t.state.getLoc());
    if (failed(made))
      return failure();
    accumulators.push_back(*made);
  }
  RankedTensorType type = builder.scalarType();
  auto first = declareAccumulator("loss_sum.accumulator", type, {}, builder.getLoc());
  auto second = declareAccumulator("count.accumulator", type, {}, builder.getLoc());
  if (failed(first) || failed(second))
    return failure();
  sumState = *first, countState = *second;
  return success();
}

/// Makes a state an argument of a function.
static Value addAccumulator(StepFunctionBuilder &builder, nn::StateOp state, Location loc) {
  return builder.addArgument(state.getTensorType(), builder.stateAttr(state), loc);
}

/// Clones @step, which at this point ends with its gradients, and makes the clone add them to the
/// accumulators (or start the sums if `first`) and return the sums.
void GradientAccumulation::makeAccumulate(StringRef name, bool first,
                                          const RunningStatistics &statistics) {
  IRMapping mapping;
  func::FuncOp step = builder.getFunction();
  StepFunctionBuilder made(cast<func::FuncOp>(step->clone(mapping)));
  made.getFunction().setSymName(name);
  builder.setInsertionPoint(step);
  builder.insert(made.getFunction());
  made.setInsertionPoint(made.getReturn());
  PhaseScope backward(made, nn::Phase::Backward);
  StepResults results;
  for (auto [t, state] : llvm::zip_equal(trained, accumulators)) {
    Value before = addAccumulator(made, state, t.value.getLoc());
    Value gradient = made.toF32(mapping.lookup(t.gradient));
    results.add(nn::AccumulateOp::create(made, t.state.getLoc(), gradient.getType(),
                                         t.state.getSymName(), gradient, first ? Value() : before),
                made.stateAttr(state));
  }
  for (auto [state, value] : {std::pair(sumState, sum), std::pair(countState, count)}) {
    Value before = addAccumulator(made, state, value.getLoc());
    Value now = made.toF32(mapping.lookup(value));
    results.add(first ? now : nn::AddOp::create(made, value.getLoc(), before, now),
                made.stateAttr(state));
  }
  statistics.addResults(made, [&](Value value) { return mapping.lookup(value); }, results);
  made.setResults(results);
  eraseDeadOps(made.getBody());
}

/// Returns the divisor of the step's loss, in the form of the micro-batch loss: the count, or 1 if
/// it is zero. A count of weights may be below one.
Value GradientAccumulation::divisorOf(Value count, Value loss) {
  auto quotient = loss.getDefiningOp<nn::DivOp>();
  if (!quotient || quotient.getRhs().getDefiningOp<nn::MaxOp>())
    return nn::MaxOp::create(builder, count.getLoc(), count, builder.constant(1));
  Value isPositive = builder.compare(nn::Predicate::GT, count, builder.constant(0));
  return builder.select(isPositive, count, builder.constant(1));
}

/// Adds the accumulators to the gradients, loss and count of the last micro-batch, which @step
/// computes.
void GradientAccumulation::addAccumulators() {
  Operation *terminator = builder.getReturn();
  builder.setInsertionPoint(terminator);
  for (auto [t, state] : llvm::zip_equal(trained, accumulators)) {
    PhaseScope backward(builder, nn::Phase::Backward);
    Value before = addAccumulator(builder, state, t.value.getLoc());
    Value gradient = builder.toF32(t.gradient);
    t.gradient = nn::AccumulateOp::create(builder, t.state.getLoc(), gradient.getType(),
                                          t.state.getSymName(), gradient, before);
    if (t.gradient.getType() != t.value.getType())
      t.gradient = nn::CastOp::create(builder, t.state.getLoc(), t.value.getType(), t.gradient);
  }
  PhaseScope update(builder, nn::Phase::Update);
  for (auto [state, value] : {std::pair(sumState, &sum), std::pair(countState, &count)}) {
    Value before = addAccumulator(builder, state, value->getLoc());
    *value = nn::AddOp::create(builder, value->getLoc(), before, builder.toF32(*value));
  }
  count = divisorOf(count, terminator->getOperand(0));
  terminator->setOperand(0, nn::DivOp::create(builder, sum.getLoc(), sum, count));
}
