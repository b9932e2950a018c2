//===- Expression.cpp - Functions of parameters that were folded ----------===//
#include "lib/Frontend/ONNX/Rules/Expression.h"
#include "lib/Folding/Numbers.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

Numbers Numbers::of(DenseElementsAttr data) {
  Numbers numbers;
  std::optional<folding::TypedBuffer> wide = folding::TypedBuffer::of(data);
  bool isFloat = wide && folding::isFloat(wide->kind());
  if (wide)
    wide =
        folding::converted(*wide, isFloat ? folding::ElementKind::F64 : folding::ElementKind::I64);
  if (!wide)
    return numbers;
  numbers.shape.assign(wide->shape().begin(), wide->shape().end());
  auto take = [&](auto *values) { numbers.values.assign(values, values + wide->size()); };
  if (isFloat)
    take(reinterpret_cast<const double *>(wide->data()));
  else
    take(reinterpret_cast<const int64_t *>(wide->data()));
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
