//===- ExpressionBuild.cpp - Builds functions of parameters ---------------===//
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "lib/Frontend/ONNX/Rules/Expression.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

static Value apply(OpBuilder &builder, Location loc, const Expression &expression, Value input) {
  switch (expression.kind) {
  case Expression::Kind::Itself:
  case Expression::Kind::Repeated:
    return input;
  case Expression::Kind::Exponential:
    return nn::ExpOp::create(builder, loc, input.getType(), input);
  case Expression::Kind::Sum:
    return nn::AddOp::create(builder, loc, input.getType(),
                             nn::splat(builder, loc, typeOf(input), expression.summand), input);
  case Expression::Kind::StopGradient:
    return nn::StopGradientOp::create(builder, loc, input.getType(), input);
  }
  llvm_unreachable("all kinds are handled");
}

Value onnx::buildExpression(OpBuilder &builder, Location loc, const Expression &expression,
                            Value input, RankedTensorType type) {
  auto wide = typeOf(input).clone(type.getShape());
  if (expression.kind == Expression::Kind::Repeated && typeOf(input).getRank() == type.getRank())
    input = nn::BroadcastOp::create(builder, loc, wide, input,
                                    llvm::to_vector(llvm::seq<int64_t>(0, type.getRank())));
  if (typeOf(input).getNumElements() != type.getNumElements())
    return {};
  Value result = apply(builder, loc, expression, input);
  if (result.getType() != wide)
    result = nn::ReshapeOp::create(builder, loc, wide, result);
  if (result.getType() != type) // what was folded may have converted it
    result = nn::CastOp::create(builder, loc, type, result);
  return result;
}

Value onnx::transposed(OpBuilder &builder, Location loc, Value matrix) {
  auto type = typeOf(matrix);
  auto turned = type.clone({type.getDimSize(1), type.getDimSize(0)});
  return nn::TransposeOp::create(builder, loc, turned, matrix, ArrayRef<int64_t>{1, 0});
}
