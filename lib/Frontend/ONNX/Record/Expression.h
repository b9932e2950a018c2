//===- Expression.h - Functions of parameters that were folded ------------===//
//
// PyTorch's exporter folds computations that depend only on parameters, such as
// `1 - mu`. Where the record has the operation, it is computed again.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_EXPRESSION_H
#define SHALE_FRONTEND_ONNX_RECORD_EXPRESSION_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>
#include <vector>

namespace shale::onnx {

/// The elements of a tensor as doubles, row-major.
struct Numbers {
  llvm::SmallVector<int64_t> shape;
  std::vector<double> values;

  static Numbers of(mlir::DenseElementsAttr data);
  int64_t size() const { return values.size(); }
};

/// A function of inputs, as a tree. An input is a parameter, or the value that a node reads where
/// an operation is restored that the exporter removed.
///
/// `op` is one of
///   input; number: numbers[0]; permute, reshape, expand: numbers are dimensions or sizes, as in
///   PyTorch; stop_gradient, exp; add, sub: two operands, of which one may be a
///   number.
struct Expression {
  std::string op;
  std::vector<Expression> operands = {};
  std::vector<double> numbers = {};

  static Expression ofInput() { return {"input"}; }
  static Expression ofNumber(double number) { return {"number", {}, {number}}; }
  static Expression of(llvm::StringRef op, Expression operand, std::vector<double> numbers = {}) {
    return {op.str(), {std::move(operand)}, std::move(numbers)};
  }
  static Expression of(llvm::StringRef op, Expression lhs, Expression rhs) {
    return {op.str(), {std::move(lhs), std::move(rhs)}};
  }

  bool isNumber() const { return op == "number"; }
  /// Returns the expression as text, for a remark: "1 - p". `name`: of the parameter.
  std::string text(llvm::StringRef name) const;
};

/// Whether an operation of this kind only moves data.
bool isMovement(llvm::StringRef op);

/// Whether an operation of this kind only converts the element type.
bool isConversion(llvm::StringRef op);

/// Whether an operation of this kind creates a tensor from literal numbers alone.
bool isMadeByCode(llvm::StringRef op);

/// Builds the expression's value at `builder`, as a tensor of `type`. Null if shapes do not fit.
mlir::Value buildExpression(mlir::OpBuilder &builder, mlir::Location loc,
                            const Expression &expression, mlir::Value input,
                            mlir::RankedTensorType type);

/// Transposes a matrix.
mlir::Value transposed(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value matrix);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_EXPRESSION_H
