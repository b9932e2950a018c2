//===- Composer.h - Short names for building nn ops --------------------------===//
//
// Lets the code of decompositions read like formulas.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_NN_DECOMPOSE_COMPOSER_H
#define SHALE_NN_DECOMPOSE_COMPOSER_H

#include "dialects/nn/NN.h"

namespace shale::nn {

/// Builds ops in place of another one, with its scope and phase, but not its shardings.
class Composer {
public:
  Composer(mlir::OpBuilder &b, mlir::Operation *op);

  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value div(mlir::Value x, mlir::Value y);
  mlir::Value max(mlir::Value x, mlir::Value y);
  mlir::Value min(mlir::Value x, mlir::Value y);
  mlir::Value exp(mlir::Value x);
  mlir::Value log(mlir::Value x);
  mlir::Value abs(mlir::Value x);
  mlir::Value floor(mlir::Value x);
  mlir::Value neg(mlir::Value x);
  mlir::Value sqrt(mlir::Value x);
  mlir::Value select(mlir::Value c, mlir::Value x, mlir::Value y);
  mlir::Value both(mlir::Value x, mlir::Value y);
  mlir::Value no(mlir::Value x);
  mlir::Value compare(Predicate p, mlir::Value x, mlir::Value y);
  mlir::Value cast(mlir::Value x, mlir::Type element);
  mlir::Value bitcast(mlir::Value x, mlir::Type element);
  mlir::Value splat(mlir::Value like, double value);
  mlir::Value splat(mlir::RankedTensorType type, double value);
  mlir::Value constant(mlir::DenseElementsAttr value);
  mlir::Value dropout(mlir::Value x, mlir::Value seed, mlir::Value step, mlir::Value microbatch,
                      mlir::Value offset, mlir::FloatAttr ratio, mlir::IntegerAttr id,
                      mlir::DenseI64ArrayAttr whole);
  mlir::Value iota(mlir::RankedTensorType type, int64_t dim);
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<int64_t> shape);
  mlir::Value broadcast(mlir::Value x, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> dims);
  /// Repeats one element per row along the last dimension of `like`.
  mlir::Value alongRows(mlir::Value x, mlir::Value like);
  /// Repeats one element per column over all rows of `like`.
  mlir::Value alongColumns(mlir::Value x, mlir::Value like);
  mlir::Value scalar(mlir::Value x, mlir::Value like);
  mlir::Value slice(mlir::Value x, int64_t dim, int64_t start, int64_t limit, int64_t stride = 1);
  mlir::Value concat(mlir::ValueRange xs, llvm::ArrayRef<int64_t> shape, int64_t dim);
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<int64_t> perm);
  mlir::Value reduce(ReduceKind kind, mlir::Value x, llvm::ArrayRef<int64_t> dims);
  /// Reduces the last dimension.
  mlir::Value reduceRows(ReduceKind kind, mlir::Value x);
  /// Sums over all dimensions but the last.
  mlir::Value sumColumns(mlir::Value x);
  /// Sums over the ranks of an axis.
  mlir::Value sumOver(llvm::StringRef axis, mlir::Value x);
  /// `element` is the element type of the result, by default that of x.
  mlir::Value matmul(mlir::Value x, mlir::Value y, bool tx, bool ty, mlir::Type element = {});

  static mlir::RankedTensorType type(mlir::Value x) {
    return llvm::cast<mlir::RankedTensorType>(x.getType());
  }
  static mlir::Type elementOf(mlir::Value x) { return type(x).getElementType(); }
  static mlir::RankedTensorType shaped(mlir::Value x, mlir::Type element) {
    return type(x).clone(element);
  }
  static mlir::RankedTensorType withShape(mlir::Value x, llvm::ArrayRef<int64_t> shape) {
    return type(x).clone(shape);
  }

private:
  template <typename Op> Op marked(Op made);
  template <typename Op, typename... Args> Op make(mlir::Type type, Args &&...args);

  mlir::OpBuilder &b;
  mlir::DictionaryAttr marks;
  mlir::Location loc;
};

} // namespace shale::nn

#endif // SHALE_NN_DECOMPOSE_COMPOSER_H
