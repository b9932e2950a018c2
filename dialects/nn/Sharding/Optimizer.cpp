//===- Optimizer.cpp - Norms over gradients -------------------------------===//
#include "dialects/nn/Sharding/Rules.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

/// Every operand is whole: the square of a partial sum is not a partial square.
/// Gradients do not come this way: see ElementReduction.
ShardingRule SumSquaresOp::getShardingRule() {
  RuleBuilder rule;
  for (Value input : getInputs())
    rule.operand(rule.dims(shapeOf(input), FactorKind::Whole));
  return rule.result({}).take();
}
