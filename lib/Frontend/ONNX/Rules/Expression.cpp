//===- Expression.cpp - Functions of parameters that were folded ----------===//
#include "lib/Frontend/ONNX/Rules/Expression.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "lib/Interpreter/Tensor.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

Numbers Numbers::of(DenseElementsAttr data) {
  interp::Tensor tensor = interp::Tensor::fromAttr(data);
  Numbers numbers;
  numbers.shape.assign(tensor.shape().begin(), tensor.shape().end());
  numbers.values.reserve(tensor.size());
  for (int64_t i = 0; i < tensor.size(); ++i)
    numbers.values.push_back(tensor.number(i));
  return numbers;
}

bool onnx::isMovement(StringRef op) { return words::is(op, words::Trait::Moves); }

bool onnx::isConversion(StringRef op) { return words::is(op, words::Trait::Converts); }

bool onnx::isDetach(StringRef name) { return operationOf(name) == "detach"; }

bool onnx::isMadeByCode(StringRef op) { return words::is(op, words::Trait::Creates); }

static std::string textOf(double value) {
  std::string text = llvm::formatv("{0:f6}", value).str();
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.')
    text.pop_back();
  return text;
}

std::string Expression::text(StringRef name) const {
  switch (kind) {
  case Kind::Exponential:
    return ("exp(" + name + ")").str();
  case Kind::Sum:
    return (textOf(summand) + " + " + name).str();
  default:
    return name.str();
  }
}
