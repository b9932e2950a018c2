//===- DelaySums.cpp - Sums gradients over data axes last -----------------===//
#include "dialects/nn/Ops/Cast.h"
#include "lib/Support/DeadOps.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/Rebuild.h"
#include "passes/sharding/Reshard.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_DELAYSUMSPASS
#include "passes/sharding/Passes.h.inc"

namespace {

/// Bounds the recursion.
constexpr int kDeepest = 1000;

/// Delays the sums over one data axis in the ops that compute gradients of one function.
class SumDelayer {
public:
  SumDelayer(func::FuncOp function, StringRef axis)
      : function(function), axis(axis), builder(function.getContext(), &listener) {}
  void run();

private:
  bool feedsGradientsOnly(Operation *op) const;
  bool holdsSum(Value value);
  bool isLinearInSum(Operation *op);
  Value beforeSum(Value value);
  Value buildPart(Value value);
  bool delay(Value gradient);

  func::FuncOp function;
  StringRef axis;
  CopyUnsharded listener;
  OpBuilder builder;
  llvm::DenseSet<Operation *> visited; ///< ops whose results only gradients read
  llvm::DenseSet<Value> holders;       ///< linear in a sum over the axis
  /// Values that were found not to be holders, with the number of visited ops at that time: the
  /// answer is the same until there are more.
  llvm::DenseMap<Value, size_t> others;
  llvm::DenseMap<Value, Value> parts; ///< of beforeSum(), for one gradient
  int depth = 0;                      ///< of holdsSum()
};

} // namespace

static bool isSum(Operation *op) {
  auto sum = dyn_cast<dist::AllReduceOp>(op);
  return sum && sum.getReduction() == dist::Reduction::Sum;
}

static bool isSumOver(Operation *op, StringRef axis) {
  return isSum(op) && cast<dist::AllReduceOp>(op).getAxis() == axis;
}

/// Returns the operands in which the op is linear, and whether it is so in all of them at once.
static std::pair<SmallVector<int64_t>, bool> linearOperands(Operation *op) {
  if (isSum(op))
    return {{0}, true};
  if (op->getNumResults() != 1)
    return {};
  ShardingRule rule = getRule(op);
  return {rule.linear, rule.additive};
}

bool SumDelayer::feedsGradientsOnly(Operation *op) const {
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    return visited.contains(user) || isa<GradientPartsOpInterface>(user);
  });
}

/// Whether the value is linear in a sum over the axis, through ops that only gradients read. False
/// for a sum that is behind more ops than kDeepest.
bool SumDelayer::holdsSum(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == kDeepest || !feedsGradientsOnly(op))
    return false;
  if (holders.contains(value))
    return true;
  if (auto other = others.find(value); other != others.end() && other->second == visited.size())
    return false;
  ++depth;
  bool holds = isLinearInSum(op);
  --depth;
  if (holds)
    holders.insert(value);
  else
    others[value] = visited.size();
  return holds;
}

bool SumDelayer::isLinearInSum(Operation *op) {
  visited.insert(op);
  int64_t found = isSumOver(op, axis);
  if (!found) {
    auto [operands, additive] = linearOperands(op);
    for (int64_t i : operands)
      found += holdsSum(op->getOperand(i));
    if (!additive && found != 1)
      return false;
  }
  return found;
}

/// Returns the part of a value that a rank adds to the sum over the axis; builds it once.
Value SumDelayer::beforeSum(Value value) {
  Value part = parts.lookup(value);
  if (!part)
    parts[value] = part = buildPart(value);
  return part;
}

Value SumDelayer::buildPart(Value value) {
  if (!holders.contains(value))
    return onFirstRank(builder, value.getLoc(), value, axis);
  Operation *op = value.getDefiningOp();
  if (isSumOver(op, axis))
    return op->getOperand(0);
  auto [linear, additive] = linearOperands(op);
  SmallVector<Value> operands(op->getOperands());
  for (int64_t i : linear)
    if (additive || holders.contains(operands[i]))
      operands[i] = beforeSum(operands[i]);
  return cloneAs(builder, op, operands, op->getResultTypes())->getResult(0);
}

/// Sums a gradient over the axis last. Returns false if it is so already, or is no sum.
bool SumDelayer::delay(Value gradient) {
  // Sums and a cast at the end become those of the packed group.
  Operation *op = gradient.getDefiningOp();
  while (op && feedsGradientsOnly(op) && (isSum(op) || isa<nn::CastOp>(op))) {
    if (isSumOver(op, axis))
      return false;
    visited.insert(op);
    op = op->getOperand(0).getDefiningOp();
  }
  if (!op || op->getNumResults() != 1 || !holdsSum(op->getResult(0)))
    return false;
  parts.clear(); // those of another gradient may be built after this one
  listener.current = op;
  builder.setInsertionPointAfter(op);
  Value part = beforeSum(op->getResult(0));
  op->getResult(0).replaceAllUsesWith(
      dist::AllReduceOp::create(builder, op->getLoc(), dist::Reduction::Sum, part, axis));
  return true;
}

void SumDelayer::run() {
  SmallVector<Value> gradients;
  for (auto accumulate : function.getOps<GradientAccumulationOpInterface>())
    gradients.push_back(accumulate.getGradientOperand().get());
  for (auto update : function.getOps<OptimizerUpdateOpInterface>())
    gradients.push_back(update.getGradientOperand().get());
  bool changed = false;
  for (Value gradient : llvm::SetVector<Value>(gradients.begin(), gradients.end()))
    changed |= delay(gradient);
  if (changed)
    eraseDeadOps(function.front());
}

namespace {
struct DelaySumsPass : impl::DelaySumsPassBase<DelaySumsPass> {
  void runOnOperation() final {
    dist::MeshOp mesh = dist::getMesh(getOperation());
    if (!mesh)
      return;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && function.getBody().hasOneBlock())
        for (StringRef axis : axesByPriority(mesh))
          if (mesh.sumsGradients(axis))
            SumDelayer(function, axis).run();
  }
};
} // namespace

} // namespace shale
