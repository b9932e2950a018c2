//===- Layout.h - Arguments that were moved before they were folded -------===//
//
// Some operations are written as nodes that read an argument transposed or in
// another shape. The exporter folds that movement of a parameter into a
// constant: the parameter has the constant's elements in another order.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_LAYOUT_H
#define SHALE_FRONTEND_ONNX_RECORD_LAYOUT_H

#include "lib/Frontend/ONNX/Record/Argument.h"
#include "lib/Frontend/ONNX/Record/Expression.h"

namespace shale::onnx {

/// How a constant was made of an argument: transposed, then reshaped.
struct Layout {
  /// The sizes of the argument.
  llvm::SmallVector<int64_t> shape;
  /// The dimensions of the argument, in the order of the transposed one.
  llvm::SmallVector<int64_t> perm;
  /// The sizes of the constant.
  llvm::SmallVector<int64_t> dims;

  /// Returns the layout of a constant of sizes `dims`. `perm`: None if the argument was not
  /// transposed. `sizes`: those of the argument, of which one may be -1; None if it was not
  /// reshaped. None if these do not fit.
  static std::optional<Layout> of(llvm::ArrayRef<int64_t> dims, const Argument &perm,
                                  const Argument &sizes);

  bool movesElements() const;
  /// Whether the constant is the argument as it is.
  bool isPlain() const { return !movesElements() && shape == dims; }
  /// Whether both are matrices, and one is the other's transpose.
  bool isTransposedMatrix() const {
    return movesElements() && dims.size() == 2 && perm.size() == 2;
  }
  /// Returns the constant as a function of the argument.
  Expression expression() const;
  /// Returns the argument's elements, from those of the constant.
  std::vector<double> argumentOf(llvm::ArrayRef<double> constant) const;
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_LAYOUT_H
