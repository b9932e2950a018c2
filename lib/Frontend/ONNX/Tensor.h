//===- Tensor.h - Values of a node, and arithmetic on them ----------------===//
#ifndef SHALE_FRONTEND_ONNX_TENSOR_H
#define SHALE_FRONTEND_ONNX_TENSOR_H

#include "dialects/nn/NN.h"
#include <optional>

namespace shale::onnx {

class Node;

/// Sizes or numbers of dimensions.
using Sizes = llvm::SmallVector<int64_t>;

/// A value, and the node for which ops are built on it. Every function that builds ops folds them,
/// and returns null for null.
class Tensor : public mlir::Value {
public:
  Tensor() = default;
  explicit Tensor(Node &node, mlir::Value value = {}) : Value(value), owner(&node) {}

  // The type of a value that is not null; null has a shape without dimensions. A negative dimension
  // counts from the end, and one that is not there has size 0.

  mlir::RankedTensorType type() const { return llvm::cast<mlir::RankedTensorType>(getType()); }
  mlir::Type element() const { return type().getElementType(); }
  llvm::ArrayRef<int64_t> shape() const {
    return *this ? type().getShape() : llvm::ArrayRef<int64_t>();
  }
  int64_t rank() const { return shape().size(); }
  int64_t dim(int64_t dim) const {
    dim += dim < 0 ? rank() : 0;
    return dim >= 0 && dim < rank() ? shape()[dim] : 0;
  }
  int64_t count() const { return *this ? type().getNumElements() : 0; }
  bool hasFloats() const { return *this && llvm::isa<mlir::FloatType>(element()); }
  bool hasTruths() const { return *this && element().isInteger(1); }
  Node &node() const { return *owner; }

  /// A constant of the value's type.
  Tensor like(double number) const;
  Tensor cast(mlir::Type element) const;
  Tensor reshape(llvm::ArrayRef<int64_t> shape) const;
  /// Adds a dimension of one element, or removes one.
  Tensor unsqueeze(int64_t dim) const;
  Tensor squeeze(int64_t dim) const;
  /// A transpose of a transpose becomes one if they are `joined`.
  Tensor transpose(llvm::ArrayRef<int64_t> perm, bool joined = false) const;
  /// Broadcasts by numpy's rule: trailing dimensions are aligned.
  Tensor broadcast(llvm::ArrayRef<int64_t> shape) const;
  Tensor slice(llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> limits,
               llvm::ArrayRef<int64_t> strides) const;
  /// The first elements of each dimension, of this number.
  Tensor cropped(llvm::ArrayRef<int64_t> shape) const;
  /// Elements [from, to) of one dimension.
  Tensor part(int64_t dim, int64_t from, int64_t to, int64_t stride = 1) const;
  /// Puts elements of a number before and after dimensions, and between their elements.
  /// `interior` may be empty: none.
  Tensor padded(llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high,
                llvm::ArrayRef<int64_t> interior = {}, double number = 0) const;
  /// Appends elements of 0 at the ends of dimensions, to `shape`.
  Tensor padded(llvm::ArrayRef<int64_t> shape) const;
  Tensor reduce(nn::ReduceKind kind, llvm::ArrayRef<int64_t> dims, bool keepDims) const;
  Tensor sum(llvm::ArrayRef<int64_t> dims, bool keepDims) const {
    return reduce(nn::ReduceKind::Sum, dims, keepDims);
  }

private:
  Node *owner = nullptr;
};

/// Sets the shape to which values broadcast without their `inner` last dimensions. Fails, with an
/// error, if there is none.
mlir::LogicalResult broadcastShape(llvm::ArrayRef<Tensor> values,
                                   llvm::SmallVectorImpl<int64_t> &shape, int64_t inner = 0);
/// Appends consecutive parts of a dimension. Fails, with an error, if their sizes are not its size.
mlir::LogicalResult cut(Tensor value, int64_t dim, llvm::ArrayRef<int64_t> sizes,
                        llvm::SmallVectorImpl<Tensor> &parts);
/// Joins values, at least one, which differ only in the size of dimension `dim`.
Tensor joined(llvm::ArrayRef<Tensor> parts, int64_t dim);

/// An operand of arithmetic: a tensor, or a number, which is a constant of the other operand's
/// type.
struct Operand {
  Tensor value;
  std::optional<double> number;

  Operand(Tensor value) : value(value) {}
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Operand(T number) : number(double(number)) {}
  /// Whether an error has left nothing.
  bool isNull() const { return !value && !number; }
};

/// Makes tensors of one shape and element type of two operands, at least one of which is a tensor.
mlir::LogicalResult match(Operand &lhs, Operand &rhs);

/// Arithmetic broadcasts both operands.
Tensor operator+(Operand lhs, Operand rhs), operator-(Operand lhs, Operand rhs);
Tensor operator*(Operand lhs, Operand rhs), operator/(Operand lhs, Operand rhs);
Tensor operator&(Tensor lhs, Tensor rhs), operator|(Tensor lhs, Tensor rhs);
Tensor max(Operand lhs, Operand rhs), min(Operand lhs, Operand rhs);
Tensor operator-(Tensor x), abs(Tensor x), cos(Tensor x), exp(Tensor x), expm1(Tensor x);
Tensor floor(Tensor x), log(Tensor x), log1p(Tensor x), rsqrt(Tensor x), sigmoid(Tensor x);
Tensor sin(Tensor x), sqrt(Tensor x), tanh(Tensor x);
/// Passes no gradient.
Tensor stopped(Tensor x);

/// Broadcasts both operands, then compares.
Tensor compare(Operand lhs, Operand rhs, nn::Predicate predicate);
inline Tensor operator<(Operand lhs, Operand rhs) { return compare(lhs, rhs, nn::Predicate::LT); }
inline Tensor operator>(Operand lhs, Operand rhs) { return compare(lhs, rhs, nn::Predicate::GT); }
inline Tensor operator<=(Operand lhs, Operand rhs) { return compare(lhs, rhs, nn::Predicate::LE); }
inline Tensor operator>=(Operand lhs, Operand rhs) { return compare(lhs, rhs, nn::Predicate::GE); }
// The operators == and != of values tell whether two are the same one.
inline Tensor equal(Operand lhs, Operand rhs) { return compare(lhs, rhs, nn::Predicate::EQ); }
inline Tensor differ(Operand lhs, Operand rhs) { return compare(lhs, rhs, nn::Predicate::NE); }

/// Returns `yes` where the condition holds, else `no`, of one shape. At most one is a number.
Tensor select(Tensor condition, Operand yes, Operand no);
/// Truth values.
Tensor isNan(Tensor x);
Tensor matmul(Tensor lhs, Tensor rhs, bool transposeLhs = false, bool transposeRhs = false);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_TENSOR_H
