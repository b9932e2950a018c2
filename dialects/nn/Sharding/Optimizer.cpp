//===- Optimizer.cpp - Norms over gradients -------------------------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Sharding/Rules.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

/// Every operand is whole: the square of a partial sum is not a partial square.
/// Gradients do not use this rule: see ElementReductionOpInterface.
ShardingRule SumSquaresOp::getShardingRule() {
  RuleBuilder rule;
  for (Value input : getInputs())
    rule.operand(rule.dims(shapeOf(input), FactorKind::Whole));
  return rule.result({}).take();
}

/// Split like its parameter. Partition and materialize-units handle sums over data axes.
ShardingRule AccumulateOp::getShardingRule() {
  RuleBuilder rule;
  TensorFactors dims = rule.dims(shapeOf(getResult()));
  for (unsigned i = 0; i < getNumOperands(); ++i)
    rule.operand(dims);
  return rule.result(dims).take();
}

// Updates have no rule: they have the layout of their parameter.
