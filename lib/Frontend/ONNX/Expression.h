//===- Expression.h - What the exporter computed of a parameter -----------===//
//
// PyTorch's exporter folds what depends on parameters alone: `1 - mu`,
// `-exp(a_log)`, `pos[:, :12]`. Here such a constant is recognised as a function
// of the parameter, so that the computation can be put back into the graph.
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

/// Elements with a shape, row-major, as numbers.
struct Numbers {
  llvm::SmallVector<int64_t> shape;
  std::vector<double> values;
  /// How far a computed element may be off, relative to the largest: some roundings of the element type.
  double tolerance = 2e-6;

  static Numbers of(mlir::DenseElementsAttr data);
  int64_t size() const { return values.size(); }
  /// Whether it has fewer than three different values: then many functions give it.
  bool isNearlyConstant() const;
};

enum class Function { Identity, Exp, Sigmoid, Softplus };

/// Elements of a parameter in another order or number: reshape to `split`, slice,
/// transpose, reshape to `kept`, broadcast to `shape`.
struct Movement {
  llvm::SmallVector<int64_t> split, starts, limits, strides, perm, kept, shape;
};

/// scale * function(movement(parameter)) + shift
struct Expression {
  Function function = Function::Identity;
  double scale = 1, shift = 0;
  Movement movement;

  /// Whether it computes nothing.
  bool movesOnly() const { return function == Function::Identity && scale == 1 && shift == 0; }
  /// In words, for a remark: "1 - p", "-exp(p)", "a part of p".
  std::string text(llvm::StringRef name) const;
};

/// Finds the expression that gives `constant` from `parameter`, to its
/// tolerance; nothing for a parameter that is nearly constant. `op` is the
/// kind of operation that was folded last ("sub", "sigmoid", "slice"; empty: not
/// known), which the expression must agree with.
std::optional<Expression> fitExpression(const Numbers &parameter, const Numbers &constant, llvm::StringRef op);

/// Reads from a line of the model's source how an attribute is used: `1 - self.mu`,
/// `torch.exp(self.a)`; exactly one way must agree with `op`.
std::optional<Expression> readSourceLine(llvm::StringRef line, llvm::StringRef attribute, llvm::StringRef op);

/// The parameter of which an expression without movement gives `constant`; nothing
/// where no finite number does.
std::optional<Numbers> invert(const Expression &expression, const Numbers &constant);

/// Whether `constant` has the expression's value for `parameter`, to its tolerance.
bool holds(const Expression &expression, const Numbers &parameter, const Numbers &constant);

/// A movement that leaves everything where it is.
Movement reshapeTo(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

/// Whether only data is moved by an operation of this kind.
bool isMovement(llvm::StringRef op);

/// Whether only the element type is converted by an operation of this kind.
bool isConversion(llvm::StringRef op);

/// Whether an operation of this kind makes a tensor of numbers alone.
bool isMadeByCode(llvm::StringRef op);

/// Whether it has two values, one of them 0, 1 or very negative, as masks do.
bool isMask(const Numbers &constant);

/// Whether it is a table that code computes: a mask, or, along some dimension of four
/// elements and more, x[t+1] + x[t-1] = c x[t], as of positions, cosines and sines.
bool isTable(const Numbers &constant);

/// Builds the expression's value at `builder`; `type` is the constant's type.
mlir::Value buildExpression(mlir::OpBuilder &builder, mlir::Location loc, const Expression &expression,
                            mlir::Value parameter, mlir::RankedTensorType type);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_EXPRESSION_H
