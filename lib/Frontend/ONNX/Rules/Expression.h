//===- Expression.h - Functions of parameters that were folded ------------===//
//
// PyTorch's exporter folds computations that depend only on parameters, such as
// `1 + weight`. Where the record has the operation, it is computed again.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_RULES_EXPRESSION_H
#define SHALE_FRONTEND_ONNX_RULES_EXPRESSION_H

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

/// A function of a parameter, or of the value that a node reads where an operation is restored that
/// the exporter removed. Its value has the shape and the element type of what the exporter folded.
struct Expression {
  enum class Kind { Itself, Repeated, Exponential, Sum, StopGradient };
  Kind kind = Kind::Itself;
  double summand = 0;

  /// Returns the expression as text, for a remark: "1 + p". `name`: of the parameter.
  std::string text(llvm::StringRef name) const;
};

/// Whether an operation of this kind only moves data.
bool isMovement(llvm::StringRef op);

/// Whether an operation of this kind only converts the element type.
bool isConversion(llvm::StringRef op);

/// Whether a value of the exported program is named after x.detach().
bool isDetach(llvm::StringRef name);

/// Whether an operation of this kind creates a tensor from literal numbers alone.
bool isMadeByCode(llvm::StringRef op);

/// Builds the expression's value at `builder`, as a tensor of `type`. Null if `input` has another
/// number of elements.
mlir::Value buildExpression(mlir::OpBuilder &builder, mlir::Location loc,
                            const Expression &expression, mlir::Value input,
                            mlir::RankedTensorType type);

/// Transposes a matrix.
mlir::Value transposed(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value matrix);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RULES_EXPRESSION_H
