//===- Expression.h - Functions of parameters that were folded ------------===//
//
// PyTorch's exporter folds computations that depend only on parameters:
// `1 - mu`, `-exp(a_log)`, `pos[:, :12]`. Such a constant is recognized as a
// function of parameters, by value or in the model's line of source, so that
// the computation can be restored in the graph.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_EXPRESSION_H
#define SHALE_FRONTEND_ONNX_RECORD_EXPRESSION_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shale::onnx {

/// The elements of a tensor as doubles, row-major.
struct Numbers {
  llvm::SmallVector<int64_t> shape;
  std::vector<double> values;
  /// Largest error of a computed element, relative to the largest element: a few roundings of the
  /// element type.
  double tolerance = 2e-6;

  static Numbers of(mlir::DenseElementsAttr data);
  int64_t size() const { return values.size(); }
  /// Whether it has fewer than three distinct values. Many functions produce such a constant.
  bool isNearlyConstant() const;
};

/// A rearrangement of an operand's elements: reshape to `split`, slice,
/// transpose, reshape to `kept`, broadcast to `shape`.
struct Movement {
  llvm::SmallVector<int64_t> split, starts, limits, strides, perm, kept, shape;

  /// Whether it gives the operand as it is, but perhaps in another shape.
  bool keepsElements() const;
};

/// An item of a Python index: `3` (At, in start), `a:b:c` (Range), `None` (New), `...` (Rest).
struct IndexItem {
  enum class Kind { At, Range, New, Rest };
  Kind kind;
  std::optional<int64_t> start = {}, end = {}, step = {};
};

/// A function of inputs, as a tree. An input is a parameter, or the value that a node reads where
/// an operation is restored that the exporter removed.
///
/// `op` is one of
///   input; number: numbers[0]; move: by `movement`; index: by `items`; convert;
///   unsqueeze, squeeze, transpose, permute, reshape, expand: numbers are dimensions or sizes as in
///   PyTorch; exp, log, sigmoid and others of one operand (isUnary()); add, sub, mul, div, pow,
///   matmul: two operands, which broadcast; clamp: numbers are the bounds; softmax: numbers[0] is
///   the dimension; sum, mean: numbers are the dimensions, all of them without, and `keeps`.
struct Expression {
  std::string op;
  std::vector<Expression> operands = {};
  std::vector<double> numbers = {};
  std::vector<IndexItem> items = {};
  Movement movement = {};
  size_t input = 0;
  bool keeps = false;

  static Expression ofInput(size_t input = 0) { return {"input", {}, {}, {}, {}, input}; }
  static Expression ofNumber(double number) { return {"number", {}, {number}}; }
  static Expression of(llvm::StringRef op, Expression operand, std::vector<double> numbers = {}) {
    return {op.str(), {std::move(operand)}, std::move(numbers)};
  }
  static Expression of(llvm::StringRef op, Expression lhs, Expression rhs) {
    return {op.str(), {std::move(lhs), std::move(rhs)}};
  }

  bool isNumber() const { return op == "number"; }
  /// Whether it only moves elements of an input.
  bool movesOnly() const;
  /// Returns the expression as text, for a remark: "1 - p", "-exp(p)", "a part of p".
  std::string text(llvm::ArrayRef<std::string> names) const;
  /// Returns a text that no other expression of the same inputs has.
  std::string key(llvm::ArrayRef<size_t> inputs) const;
};

/// Whether an op of this name is computed element by element from one operand.
bool isUnary(llvm::StringRef op);

/// Finds the expression that computes `constant` from `parameter`, within the
/// constant's tolerance; none if the parameter is nearly constant. `op` is the
/// kind of operation that was folded last ("sub", "sigmoid", "slice"; empty if
/// unknown), which the expression must agree with.
std::optional<Expression> fitExpression(const Numbers &parameter, const Numbers &constant,
                                        llvm::StringRef op);

/// An expression that a line of the model's source computes. Input k is `parameters[k]`.
struct Reading {
  Expression expression;
  std::vector<size_t> parameters;
};

/// An operation of the exported program that reads a value, as far as it is known.
struct Reader {
  std::string kind; ///< "mul"
  /// The number of the value among its arguments, or -1.
  int argument = -1;
  /// Its place among the operations of this kind that come from this line of this module, in the
  /// order of computation, and their number. 0 of 0: not known.
  size_t order = 0, count = 0;
};

/// A value that an operation of the exported program reads.
struct ReadValue {
  llvm::StringRef line; ///< the line of source of the operation that reads it
  llvm::StringRef op;   ///< the kind of the operation that computed it
  const Reader &reader;
};

/// Returns the expressions in a line that may have computed a value: functions of parameters and
/// numbers alone, whose last operation is of the value's kind and that an operation of the reader's
/// kind reads. `parameterOf` maps `lin.weight`, of `self.lin.weight`, to a parameter, or to -1.
std::vector<Reading> readingsOf(const ReadValue &value,
                                llvm::function_ref<int(llvm::StringRef)> parameterOf);

/// Returns the factors and summands that a removed operation may have had: expressions of
/// parameters that the line combines with something else by an operation of kind `value.op`.
std::vector<Reading> operandsOf(const ReadValue &value,
                                llvm::function_ref<int(llvm::StringRef)> parameterOf);

/// Computes an expression in f64. An input that it does not read may be null. None if shapes do not
/// fit, or an element is not finite.
std::optional<Numbers> evaluate(mlir::MLIRContext &context, const Expression &expression,
                                llvm::ArrayRef<const Numbers *> inputs);

/// The value of an input with which an expression has a given value.
struct Solution {
  Numbers numbers;
  /// The expression reads this part of the input alone, by the first index; -1: all of it.
  int64_t part = -1;
};

/// Solves expression = constant for input `unknown`, whose entry in `inputs` is null. None if it is
/// not unique, as for a softmax, or an element is not finite.
std::optional<Solution> solve(mlir::MLIRContext &context, const Expression &expression,
                              llvm::ArrayRef<const Numbers *> inputs, size_t unknown,
                              const Numbers &constant);

/// Whether both have the same shape and the same elements, within the tolerance of `constant`.
bool isClose(const Numbers &numbers, const Numbers &constant);

/// Whether an operation of kind `op` can be the last one of the expression.
bool agrees(const Expression &expression, llvm::StringRef op);

/// Returns the movement that only reshapes `from` to `to`.
Movement reshapeTo(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

/// Whether an operation of this kind only moves data.
bool isMovement(llvm::StringRef op);

/// Whether an operation of this kind only converts the element type.
bool isConversion(llvm::StringRef op);

/// Whether an operation of this kind creates a tensor from literal numbers alone.
bool isMadeByCode(llvm::StringRef op);

/// Returns scale * operand + shift, in the fewest operations.
Expression affine(Expression operand, double scale, double shift);

/// Whether it has exactly two distinct values, one of them 0, 1 or very negative, like a mask.
bool isMask(const Numbers &constant);

/// Whether it looks like a table that code computes: a mask, or a tensor with
/// x[t+1] + x[t-1] = c x[t] along some dimension of at least four elements, which
/// positions, cosines and sines satisfy.
bool isTable(const Numbers &constant);

/// Builds the expression's value at `builder`, as a tensor of `type`; without one, the inputs have
/// one type of elements, and so has the result. Null if shapes do not fit.
mlir::Value buildExpression(mlir::OpBuilder &builder, mlir::Location loc,
                            const Expression &expression, llvm::ArrayRef<mlir::Value> inputs,
                            mlir::RankedTensorType type = {});

/// Transposes a matrix.
mlir::Value transposed(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value matrix);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_EXPRESSION_H
