//===- Saturate.cpp - Values beyond the range of a 16-bit float -----------===//
#include "passes/precision/Saturate.h"
#include "dialects/nn/Decompose/Composer.h"
#include "dialects/nn/Ops/Constant.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace shale {

static double largestOf(Type element) {
  return llvm::APFloat::getLargest(cast<FloatType>(element).getFloatSemantics()).convertToDouble();
}

double clampedTo(Type element, double value) {
  double largest = largestOf(element);
  return std::isfinite(value) ? std::min(std::max(value, -largest), largest) : value;
}

static bool isBeyond(nn::ConstantOp constant, Type element) {
  auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!dense || !dense.getElementType().isF32())
    return false;
  auto beyond = [&](const APFloat &value) {
    double number = value.convertToDouble();
    return !std::isnan(number) && clampedTo(element, number) != number;
  };
  if (dense.isSplat())
    return beyond(dense.getSplatValue<APFloat>());
  return llvm::any_of(dense.getValues<APFloat>(), beyond);
}

llvm::DenseSet<Value> valuesBeyond(func::FuncOp function, Type element) {
  llvm::DenseSet<Value> values;
  for (Operation &op : function.getBody().front()) {
    if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
      if (isBeyond(constant, element))
        values.insert(constant.getResult());
      continue;
    }
    auto precision = dyn_cast<PrecisionOpInterface>(op);
    nn::PhaseAttr phase = nn::phaseOf(&op);
    if (!precision || !phase || phase.getValue() != nn::Phase::Forward ||
        !(isa<ElementwiseOpInterface>(op) || precision.movesOnly()) ||
        llvm::none_of(op.getOperands(), [&](Value v) { return values.contains(v); }))
      continue;
    for (Value result : op.getResults())
      if (auto type = dyn_cast<RankedTensorType>(result.getType());
          type && type.getElementType().isF32())
        values.insert(result);
  }
  return values;
}

Value saturate(OpBuilder &builder, Value value, Type element, Operation *like) {
  nn::Composer c(builder, like);
  double largest = largestOf(element);
  Value finite = c.compare(nn::Predicate::LT, c.abs(value),
                           c.splat(value, std::numeric_limits<double>::infinity()));
  Value clamped = c.min(c.max(value, c.splat(value, -largest)), c.splat(value, largest));
  return c.select(finite, clamped, value);
}

} // namespace shale
