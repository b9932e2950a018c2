//===- GivenGradients.cpp - Gradients that the model's file computes ------===//
//
// A graph of forward and backward in one has results of @forward with nn.gradient_of. They are
// used as they are, and nothing is derived.
//
//===----------------------------------------------------------------------===//
#include "passes/autodiff/GivenGradients.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Seed.h"
#include "lib/Support/Remarks.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace shale;

LogicalResult GivenGradients::take(RunningStatistics &statistics) {
  func::FuncOp function = builder.getFunction();
  Operation *terminator = builder.getReturn();
  for (unsigned i = 3, e = terminator->getNumOperands(); i < e; ++i) {
    auto symbol = function.getResultAttrOfType<FlatSymbolRefAttr>(i, nn::kGradientOfAttr);
    if (auto buffer = function.getResultAttrOfType<FlatSymbolRefAttr>(i, nn::kStateAttr)) {
      if (failed(statistics.take(function, buffer, terminator->getOperand(i))))
        return failure();
      continue;
    }
    if (!symbol)
      return function.emitError("result ")
             << i << " of @forward is neither the loss, its sum and count, nor a gradient "
             << "(nn.gradient_of), nor a buffer's new value (nn.state)";
    if (!gradients.try_emplace(symbol.getAttr(), terminator->getOperand(i)).second)
      return function.emitError("the gradient of '")
             << symbol.getValue() << "' is a result of @forward twice";
  }
  for (Trained &t : trained)
    if (!empty() && !gradients.count(t.state.getSymNameAttr()))
      return t.state.emitError("@forward has gradients, but none of the trained parameter '")
             << t.state.getSymName() << "'; freeze it, or give its gradient, too";
  if (terminator->getNumOperands() == 3)
    return success();
  terminator->eraseOperands(3, terminator->getNumOperands() - 3);
  function.setFunctionType(
      builder.getFunctionType(function.getArgumentTypes(), terminator->getOperandTypes()));
  function.setAllResultAttrs(ArrayRef<DictionaryAttr>());
  return success();
}

/// Moves ops to just before their first reader, from last to first. A trace of PyTorch computes
/// what the backward pass alone reads (transposes, matmuls of activations) where the forward pass
/// had it: recomputation would start all blocks there. Gradients stay where they are complete. So
/// do ops that depend on the seed: autograd computes them block by block, and moving one to where
/// it is added would read the block's parameters again.
static void sinkToReaders(ArrayRef<Operation *> ops, const llvm::DenseSet<Operation *> &gradients) {
  llvm::DenseSet<Operation *> seeded;
  for (Operation *op : ops)
    if (isa<nn::SeedOp>(op) || llvm::any_of(op->getOperands(), [&](Value operand) {
          return seeded.contains(operand.getDefiningOp());
        }))
      seeded.insert(op);
  for (Operation *op : llvm::reverse(ops)) {
    if (gradients.contains(op) || seeded.contains(op) || op->use_empty())
      continue;
    Operation *first = *op->user_begin();
    for (Operation *user : op->getUsers())
      if (user->isBeforeInBlock(first))
        first = user;
    op->moveBefore(first);
  }
}

/// Forward is what the loss depends on; the rest of the graph is backward, and follows it.
void GivenGradients::markBackward() {
  Block &body = builder.getBody();
  llvm::SetVector<Operation *> forward;
  auto add = [&](ValueRange values) {
    for (Value value : values)
      if (Operation *op = value.getDefiningOp())
        forward.insert(op);
  };
  add(body.getTerminator()->getOperands());
  for (size_t i = 0; i < forward.size(); ++i)
    add(forward[i]->getOperands());
  auto backward = nn::PhaseAttr::get(builder.getContext(), nn::Phase::Backward);
  SmallVector<Operation *> others;
  for (Operation &op : body.without_terminator())
    if (!forward.contains(&op))
      others.push_back(&op);
  for (Operation *op : others) {
    op->setAttr(nn::kPhaseAttr, backward);
    op->moveBefore(body.getTerminator());
  }
  llvm::DenseSet<Operation *> complete;
  for (const auto &[name, value] : gradients)
    complete.insert(value.getDefiningOp());
  sinkToReaders(others, complete);
}

void GivenGradients::use(LossScale &scale, GradientAccumulation &accumulation) {
  markBackward();
  Operation *terminator = builder.getReturn();
  bool seeded = checkSeeds(scale);
  builder.setInsertionPoint(terminator);
  // The gradients are those of the loss of one micro-batch. If the loss is a mean, the step needs
  // those of the sum, since it divides by the count of all micro-batches.
  Value factor;
  if (accumulation.isNeeded()) {
    Value loss = terminator->getOperand(0);
    accumulation.findMean();
    if (accumulation.getSum() != loss)
      factor = loss.getDefiningOp<nn::DivOp>().getRhs();
    if (scale.isUsed())
      scale.divideBy(accumulation.boundLabels());
  }
  replaceSeeds(scale, seeded ? factor : Value());
  for (Trained &t : trained) {
    t.gradient = gradients.lookup(t.state.getSymNameAttr());
    if (factor && !seeded)
      t.gradient = times(t.gradient, factor);
  }
}

/// Multiplies a gradient by a scalar.
Value GivenGradients::times(Value gradient, Value scalar) {
  PhaseScope phase(builder, nn::Phase::Backward);
  Location loc = gradient.getLoc();
  Value wide = scalar;
  if (wide.getType() != gradient.getType())
    wide = nn::BroadcastOp::create(builder, loc, gradient.getType(), scalar, ArrayRef<int64_t>{});
  return nn::MulOp::create(builder, loc, gradient.getType(), gradient, wide);
}

//===----------------------------------------------------------------------===//
// Seeds: the ops with which the gradients of the file begin
//===----------------------------------------------------------------------===//

/// Whether all elements are known to be 0.
static bool isZero(Value value) {
  while (auto broadcast = value.getDefiningOp<nn::BroadcastOp>())
    value = broadcast.getInput();
  return matchPattern(value, m_AnyZeroFloat());
}

/// Whether the results are multiplied by what the operands in `scaled` are multiplied by. An op is
/// linear where partial sums pass through it.
static bool isLinear(Operation *op, const llvm::DenseSet<Value> &scaled) {
  auto isScaled = [&](Value value) { return scaled.contains(value); };
  if (isa<nn::CastOp>(op)) // also to a narrower type
    return isa<FloatType>(getElementTypeOrSelf(op->getResult(0)));
  auto sharded = dyn_cast<ShardingRuleOpInterface>(op);
  if (!sharded)
    return false;
  ShardingRule rule = sharded.getShardingRule();
  int64_t count = llvm::count_if(op->getOperands(), isScaled), linear = 0;
  for (int64_t index : rule.linear) {
    Value operand = op->getOperand(index);
    linear += isScaled(operand);
    if (rule.additive && !isScaled(operand) && !isZero(operand))
      return false;
  }
  return linear == count && (rule.additive || count == 1);
}

/// Returns the op by which a gradient is not multiplied when the seeds are; null if there is none.
static Operation *findNonlinear(Block &body, ArrayRef<Value> gradients) {
  llvm::DenseSet<Value> scaled;
  llvm::DenseMap<Value, Operation *> other; // depends on the seeds in another way
  for (Operation &op : body.without_terminator()) {
    auto spoiled = llvm::find_if(op.getOperands(), [&](Value v) { return other.contains(v); });
    Operation *why = spoiled == op.operand_end() ? nullptr : other.lookup(*spoiled);
    if (!why && !isa<nn::SeedOp>(op)) {
      if (llvm::none_of(op.getOperands(), [&](Value v) { return scaled.contains(v); }))
        continue;
      if (!isLinear(&op, scaled))
        why = &op;
    }
    for (Value result : op.getResults())
      if (why)
        other[result] = why;
      else
        scaled.insert(result);
  }
  for (Value gradient : gradients)
    if (!scaled.contains(gradient) && !isZero(gradient)) {
      Operation *why = other.lookup(gradient);
      return why ? why : gradient.getDefiningOp();
    }
  return nullptr;
}

bool GivenGradients::checkSeeds(LossScale &scale) {
  Block &body = builder.getBody();
  bool any = !body.getOps<nn::SeedOp>().empty();
  SmallVector<Value> wanted;
  for (Trained &t : trained)
    wanted.push_back(gradients.lookup(t.state.getSymNameAttr()));
  bool areOps = llvm::all_of(wanted, [](Value value) { return value.getDefiningOp(); });
  Operation *nonlinear = any && areOps ? findNonlinear(body, wanted) : nullptr;
  if (any && areOps && !nonlinear) {
    scale.declare();
    return true;
  }
  if (!scale.isNeeded())
    return false;
  constexpr llvm::StringLiteral advice =
      "the loss cannot be scaled: in f16, small gradients become zero. --param-dtype bf16 has the "
      "range of f32";
  if (nonlinear)
    emitWarning(nonlinear->getLoc())
        << "the file computes the gradients, and here they are not proportional to the loss, so "
        << advice;
  else
    emitWarning(builder.getLoc())
        << "the file computes the gradients and does not mark where they begin, so " << advice;
  return false;
}

void GivenGradients::replaceSeeds(const LossScale &scale, Value factor) {
  PhaseScope backward(builder, nn::Phase::Backward);
  OpBuilder::InsertionGuard guard(builder);
  for (auto op : llvm::make_early_inc_range(builder.getBody().getOps<nn::SeedOp>())) {
    builder.setInsertionPoint(op);
    auto type = cast<RankedTensorType>(op.getType());
    Value seed = nn::splat(builder, op.getLoc(), type, 1 / scale.getDivisor());
    for (Value multiple : {scale.getValue(), factor}) {
      if (!multiple)
        continue;
      if (multiple.getType() != type)
        multiple = nn::CastOp::create(builder, op.getLoc(), type, multiple);
      seed = nn::MulOp::create(builder, op.getLoc(), type, seed, multiple);
    }
    op.replaceAllUsesWith(seed);
    op.erase();
  }
}
