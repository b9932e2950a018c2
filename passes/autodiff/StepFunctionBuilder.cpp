//===- StepFunctionBuilder.cpp - Builds a function of a training step -----===//
#include "passes/autodiff/StepFunctionBuilder.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"

using namespace mlir;
using namespace shale;

Value StepFunctionBuilder::addArgument(Type type, DictionaryAttr attrs, Location loc) {
  unsigned index = function.getNumArguments();
  (void)function.insertArgument(index, type, attrs, loc);
  return function.getArgument(index);
}

void StepFunctionBuilder::setResults(const StepResults &results) {
  getReturn()->setOperands(results.values);
  function.setFunctionType(
      getFunctionType(function.getArgumentTypes(), ValueRange(results.values).getTypes()));
  function.setAllResultAttrs(results.attrs);
}

DictionaryAttr StepFunctionBuilder::roleAndName(nn::Role role, StringRef name) {
  return getDictionaryAttr({getNamedAttr(nn::kRoleAttr, nn::RoleAttr::get(getContext(), role)),
                            getNamedAttr(nn::kNameAttr, getStringAttr(name))});
}

DictionaryAttr StepFunctionBuilder::stateAttr(nn::StateOp state) {
  return getDictionaryAttr(getNamedAttr(nn::kStateAttr, FlatSymbolRefAttr::get(state)));
}

Value StepFunctionBuilder::constant(double value) {
  return nn::splat(*this, getLoc(), scalarType(), value);
}

Value StepFunctionBuilder::toF32(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType().isF32())
    return value;
  return nn::CastOp::create(*this, value.getLoc(), type.clone(getF32Type()), value);
}

Value StepFunctionBuilder::select(Value condition, Value a, Value b) {
  return nn::SelectOp::create(*this, getLoc(), a.getType(), condition, a, b);
}

Value StepFunctionBuilder::compare(nn::Predicate predicate, Value a, Value b) {
  return nn::CompareOp::create(*this, getLoc(), nn::boolScalar(a.getType()), predicate, a, b);
}
