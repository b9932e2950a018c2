//===- Expression.h - Functions of parameters that were folded ------------===//
//
// PyTorch's exporter folds computations that depend only on parameters:
// `1 - mu`, `-exp(a_log)`, `pos[:, :12]`. This file recognizes such a constant
// as a function of the parameter, so that the computation can be restored in
// the graph.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_EXPRESSION_H
#define SHALE_FRONTEND_ONNX_EXPRESSION_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
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

enum class Function { Identity, Exp, Sigmoid, Softplus };

/// A rearrangement of a parameter's elements: reshape to `split`, slice,
/// transpose, reshape to `kept`, broadcast to `shape`.
struct Movement {
  llvm::SmallVector<int64_t> split, starts, limits, strides, perm, kept, shape;
};

/// scale * function(movement(parameter)) + shift
struct Expression {
  Function function = Function::Identity;
  double scale = 1, shift = 0;
  Movement movement;

  /// Whether it only moves elements.
  bool movesOnly() const { return function == Function::Identity && scale == 1 && shift == 0; }
  /// Returns the expression as text, for a remark: "1 - p", "-exp(p)", "a part of p".
  std::string text(llvm::StringRef name) const;
};

/// Finds the expression that computes `constant` from `parameter`, within the
/// constant's tolerance; none if the parameter is nearly constant. `op` is the
/// kind of operation that was folded last ("sub", "sigmoid", "slice"; empty if
/// unknown), which the expression must agree with.
std::optional<Expression> fitExpression(const Numbers &parameter, const Numbers &constant,
                                        llvm::StringRef op);

/// Parses how a line of the model's source uses an attribute: `1 - self.mu`,
/// `torch.exp(self.a)`. None unless exactly one reading agrees with `op`.
std::optional<Expression> readSourceLine(llvm::StringRef line, llvm::StringRef attribute,
                                         llvm::StringRef op);

/// Returns the parameter for which `expression`, without its movement, gives
/// `constant`; none if an element would not be finite.
std::optional<Numbers> invert(const Expression &expression, const Numbers &constant);

/// Whether `expression`, without its movement, computes `constant` from `parameter` within the
/// constant's tolerance.
bool holds(const Expression &expression, const Numbers &parameter, const Numbers &constant);

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

/// Whether it has exactly two distinct values, one of them 0, 1 or very negative, like a mask.
bool isMask(const Numbers &constant);

/// Whether it looks like a table that code computes: a mask, or a tensor with
/// x[t+1] + x[t-1] = c x[t] along some dimension of at least four elements, which
/// positions, cosines and sines satisfy.
bool isTable(const Numbers &constant);

/// Builds the expression's value at `builder`; `type` is the constant's type.
mlir::Value buildExpression(mlir::OpBuilder &builder, mlir::Location loc,
                            const Expression &expression, mlir::Value parameter,
                            mlir::RankedTensorType type);

/// Transposes a matrix.
mlir::Value transposed(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value matrix);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_EXPRESSION_H
