//===- ExpressionBuild.cpp - Builds functions of parameters ---------------===//
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "lib/Frontend/ONNX/Record/Expression.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

static Value reshape(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> shape) {
  RankedTensorType type = typeOf(value), wanted = type.clone(shape);
  if (type == wanted)
    return value;
  return wanted.getNumElements() == type.getNumElements()
             ? nn::ReshapeOp::create(builder, loc, wanted, value)
             : Value();
}

static Value permute(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> perm) {
  if (llvm::is_sorted(perm))
    return value;
  SmallVector<int64_t> shape;
  for (int64_t dim : perm)
    shape.push_back(typeOf(value).getDimSize(dim));
  return nn::TransposeOp::create(builder, loc, typeOf(value).clone(shape), value, perm);
}

static Value expand(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> shape) {
  return nn::BroadcastOp::create(builder, loc, typeOf(value).clone(shape), value,
                                 llvm::to_vector(llvm::seq<int64_t>(0, shape.size())));
}

static Value build(OpBuilder &builder, Location loc, const Expression &expression, Value input) {
  if (expression.op == "input")
    return input;
  SmallVector<Value> operands;
  for (const Expression &operand : expression.operands)
    if (!operands.emplace_back(operand.isNumber() ? Value()
                                                  : build(builder, loc, operand, input)) &&
        !operand.isNumber())
      return {};
  for (auto [operand, of] : llvm::zip(operands, expression.operands)) // of the other's shape
    if (of.isNumber())
      operand = nn::splat(builder, loc, typeOf(operands[&operand == &operands[0]]), of.numbers[0]);
  SmallVector<int64_t> numbers(expression.numbers.begin(), expression.numbers.end());
  if (expression.op == "permute")
    return permute(builder, loc, operands[0], numbers);
  if (expression.op == "reshape")
    return reshape(builder, loc, operands[0], numbers);
  if (expression.op == "expand")
    return expand(builder, loc, operands[0], numbers);
  OperationState state(loc, "nn." + expression.op, operands, operands[0].getType());
  return builder.create(state)->getResult(0);
}

Value onnx::buildExpression(OpBuilder &builder, Location loc, const Expression &expression,
                            Value input, RankedTensorType type) {
  Value result = build(builder, loc, expression, input);
  if (result)
    result = reshape(builder, loc, result, type.getShape());
  if (!result || result.getType() == type)
    return result;
  return nn::CastOp::create(builder, loc, type, result); // what was folded may have converted it
}

Value onnx::transposed(OpBuilder &builder, Location loc, Value matrix) {
  auto type = typeOf(matrix);
  auto turned = type.clone({type.getDimSize(1), type.getDimSize(0)});
  return nn::TransposeOp::create(builder, loc, turned, matrix, ArrayRef<int64_t>{1, 0});
}
