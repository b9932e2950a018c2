//===- Seeds.cpp - Where the gradients of the model's file begin ----------===//
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Seed.h"
#include "mlir/IR/Matchers.h"
#include "passes/autodiff/StepBuilder.h"

using namespace mlir;
using namespace shale;

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

bool StepBuilder::checkSeeds() {
  Block &body = function.getBody().front();
  bool any = !body.getOps<nn::SeedOp>().empty();
  SmallVector<Value> gradients;
  for (Trained &t : trained)
    gradients.push_back(givenGradients.lookup(t.state.getSymNameAttr()));
  bool areOps = llvm::all_of(gradients, [](Value value) { return value.getDefiningOp(); });
  Operation *nonlinear = any && areOps ? findNonlinear(body, gradients) : nullptr;
  if (any && areOps && !nonlinear) {
    declareLossScale();
    return true;
  }
  if (!needsLossScale())
    return false;
  constexpr llvm::StringLiteral advice =
      "the loss cannot be scaled: in f16, small gradients become zero. --param-dtype bf16 has the "
      "range of f32";
  if (nonlinear)
    emitWarning(nonlinear->getLoc())
        << "the file computes the gradients, and here they are not proportional to the loss, so "
        << advice;
  else
    emitWarning(function.getLoc())
        << "the file computes the gradients and does not mark where they begin, so " << advice;
  return false;
}

void StepBuilder::replaceSeeds(Value factor) {
  PhaseScope backward(builder, nn::Phase::Backward);
  OpBuilder::InsertionGuard guard(builder);
  Block &body = function.getBody().front();
  for (auto op : llvm::make_early_inc_range(body.getOps<nn::SeedOp>())) {
    builder.setInsertionPoint(op);
    auto type = cast<RankedTensorType>(op.getType());
    Value seed = nn::splat(builder, op.getLoc(), type, 1 / divisor);
    for (Value multiple : {scale.value, factor}) {
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
