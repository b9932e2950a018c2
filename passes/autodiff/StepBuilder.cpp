//===- StepBuilder.cpp - What the parts of a training step share ----------===//
#include "passes/autodiff/StepBuilder.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/State.h"

using namespace mlir;
using namespace shale;

DictionaryAttr StepBuilder::roleAndName(nn::Role role, StringRef name) {
  return builder.getDictionaryAttr(
      {builder.getNamedAttr(nn::kRoleAttr, nn::RoleAttr::get(builder.getContext(), role)),
       builder.getNamedAttr(nn::kNameAttr, builder.getStringAttr(name))});
}

DictionaryAttr StepBuilder::stateAttr(nn::StateOp state) {
  return builder.getDictionaryAttr(
      builder.getNamedAttr(nn::kStateAttr, FlatSymbolRefAttr::get(state)));
}

Value StepBuilder::addArgument(Type type, DictionaryAttr attrs, Location loc) {
  unsigned index = function.getNumArguments();
  (void)function.insertArgument(index, type, attrs, loc);
  return function.getArgument(index);
}

Value StepBuilder::constant(double value) {
  return nn::splat(builder, function.getLoc(), scalarType(), value);
}

Value StepBuilder::toF32(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType().isF32())
    return value;
  return nn::CastOp::create(builder, value.getLoc(), type.clone(builder.getF32Type()), value);
}

Value StepBuilder::select(Value condition, Value a, Value b) {
  return nn::SelectOp::create(builder, function.getLoc(), a.getType(), condition, a, b);
}

Value StepBuilder::compare(nn::Predicate predicate, Value a, Value b) {
  return nn::CompareOp::create(builder, function.getLoc(), nn::boolScalar(a.getType()), predicate,
                               a, b);
}

void StepBuilder::setResults(ValueRange results, ArrayRef<DictionaryAttr> attrs) {
  function.getBody().front().getTerminator()->setOperands(results);
  function.setFunctionType(
      builder.getFunctionType(function.getArgumentTypes(), results.getTypes()));
  function.setAllResultAttrs(attrs);
}
