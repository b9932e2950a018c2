//===- Composer.h - Short names for building nn ops --------------------------===//
//
// Lets the code of decompositions read like formulas.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_NN_DECOMPOSE_COMPOSER_H
#define SHALE_NN_DECOMPOSE_COMPOSER_H

#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Random.h"
#include "dialects/nn/Ops/Reduce.h"

namespace shale::nn {

class Composer {
public:
  Composer(mlir::OpBuilder &b, mlir::Operation *op) : b(b), op(op), loc(op->getLoc()) {}

  mlir::Value add(mlir::Value x, mlir::Value y) { return make<AddOp>(x.getType(), x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return make<SubOp>(x.getType(), x, y); }
  mlir::Value mul(mlir::Value x, mlir::Value y) { return make<MulOp>(x.getType(), x, y); }
  mlir::Value div(mlir::Value x, mlir::Value y) { return make<DivOp>(x.getType(), x, y); }
  mlir::Value max(mlir::Value x, mlir::Value y) { return make<MaxOp>(x.getType(), x, y); }
  mlir::Value min(mlir::Value x, mlir::Value y) { return make<MinOp>(x.getType(), x, y); }
  mlir::Value exp(mlir::Value x) { return make<ExpOp>(x.getType(), x); }
  mlir::Value log(mlir::Value x) { return make<LogOp>(x.getType(), x); }
  mlir::Value abs(mlir::Value x) { return make<AbsOp>(x.getType(), x); }
  mlir::Value floor(mlir::Value x) { return make<FloorOp>(x.getType(), x); }
  mlir::Value neg(mlir::Value x) { return make<NegOp>(x.getType(), x); }
  mlir::Value sqrt(mlir::Value x) { return make<SqrtOp>(x.getType(), x); }
  mlir::Value select(mlir::Value c, mlir::Value x, mlir::Value y) {
    return make<SelectOp>(x.getType(), c, x, y);
  }
  mlir::Value both(mlir::Value x, mlir::Value y) { return make<AndOp>(x.getType(), x, y); }
  mlir::Value no(mlir::Value x) { return make<NotOp>(x.getType(), x); }
  mlir::Value compare(Predicate p, mlir::Value x, mlir::Value y) {
    return make<CompareOp>(shaped(x, b.getI1Type()), p, x, y);
  }
  mlir::Value cast(mlir::Value x, mlir::Type element) {
    return elementOf(x) == element ? x : mlir::Value(make<CastOp>(shaped(x, element), x));
  }
  mlir::Value bitcast(mlir::Value x, mlir::Type element) {
    return make<BitcastOp>(shaped(x, element), x);
  }
  mlir::Value splat(mlir::Value like, double value) { return splat(type(like), value); }
  mlir::Value splat(mlir::RankedTensorType type, double value) {
    return marked(nn::splat(b, loc, type, value).getDefiningOp())->getResult(0);
  }
  mlir::Value constant(mlir::DenseElementsAttr value) {
    return marked(ConstantOp::create(b, loc, value));
  }
  mlir::Value dropout(mlir::Value x, mlir::Value seed, mlir::Value step, mlir::Value microbatch,
                      mlir::Value offset, mlir::FloatAttr ratio, mlir::IntegerAttr id,
                      mlir::DenseI64ArrayAttr whole) {
    return make<DropoutOp>(x.getType(), x, seed, step, microbatch, offset, ratio, id, whole);
  }
  mlir::Value iota(mlir::RankedTensorType type, int64_t dim) { return make<IotaOp>(type, dim); }
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<int64_t> shape) {
    return shape == type(x).getShape() ? x : mlir::Value(make<ReshapeOp>(withShape(x, shape), x));
  }
  mlir::Value broadcast(mlir::Value x, llvm::ArrayRef<int64_t> shape,
                        llvm::ArrayRef<int64_t> dims) {
    return make<BroadcastOp>(withShape(x, shape), x, dims);
  }
  /// Repeats one element per row along the last dimension of `like`.
  mlir::Value alongRows(mlir::Value x, mlir::Value like) {
    auto dims = llvm::to_vector(llvm::seq<int64_t>(0, type(x).getRank()));
    return broadcast(x, type(like).getShape(), dims);
  }
  /// Repeats one element per column over all rows of `like`.
  mlir::Value alongColumns(mlir::Value x, mlir::Value like) {
    return broadcast(x, type(like).getShape(), {type(like).getRank() - 1});
  }
  mlir::Value scalar(mlir::Value x, mlir::Value like) {
    return broadcast(x, type(like).getShape(), {});
  }
  mlir::Value slice(mlir::Value x, int64_t dim, int64_t start, int64_t limit, int64_t stride = 1) {
    llvm::SmallVector<int64_t> shape(type(x).getShape()), starts(shape.size()), limits(shape),
        strides(shape.size(), 1);
    starts[dim] = start, limits[dim] = limit, strides[dim] = stride;
    shape[dim] = (limit - start + stride - 1) / stride;
    return make<SliceOp>(withShape(x, shape), x, starts, limits, strides);
  }
  mlir::Value concat(mlir::ValueRange xs, llvm::ArrayRef<int64_t> shape, int64_t dim) {
    return make<ConcatOp>(withShape(xs[0], shape), xs, dim);
  }
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<int64_t> perm) {
    llvm::SmallVector<int64_t> shape;
    for (int64_t dim : perm)
      shape.push_back(type(x).getDimSize(dim));
    return make<TransposeOp>(withShape(x, shape), x, perm);
  }
  mlir::Value reduce(ReduceKind kind, mlir::Value x, llvm::ArrayRef<int64_t> dims) {
    llvm::SmallVector<int64_t> shape;
    for (int64_t i = 0; i < type(x).getRank(); ++i)
      if (!llvm::is_contained(dims, i))
        shape.push_back(type(x).getDimSize(i));
    return make<ReduceOp>(withShape(x, shape), kind, x, dims);
  }
  /// Reduces the last dimension.
  mlir::Value reduceRows(ReduceKind kind, mlir::Value x) {
    return reduce(kind, x, {type(x).getRank() - 1});
  }
  /// Sums over all dimensions but the last.
  mlir::Value sumColumns(mlir::Value x) {
    return reduce(ReduceKind::Sum, x,
                  llvm::to_vector(llvm::seq<int64_t>(0, type(x).getRank() - 1)));
  }
  /// `element` is the element type of the result, by default that of x.
  mlir::Value matmul(mlir::Value x, mlir::Value y, bool tx, bool ty, mlir::Type element = {}) {
    llvm::SmallVector<int64_t> shape(type(x).getShape());
    size_t rank = shape.size();
    shape[rank - 2] = type(x).getDimSize(rank - (tx ? 1 : 2));
    shape[rank - 1] = type(y).getDimSize(rank - (ty ? 2 : 1));
    mlir::RankedTensorType result = withShape(x, shape);
    return make<MatmulOp>(element ? result.clone(element) : result, x, y, tx, ty);
  }

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
  /// Copies scope and phase from the decomposed op to an op made for it.
  template <typename Op> Op marked(Op made) {
    made->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    return made;
  }
  template <typename Op, typename... Args> Op make(mlir::Type type, Args &&...args) {
    return marked(Op::create(b, loc, type, std::forward<Args>(args)...));
  }

  mlir::OpBuilder &b;
  mlir::Operation *op;
  mlir::Location loc;
};

} // namespace shale::nn

#endif // SHALE_NN_DECOMPOSE_COMPOSER_H
