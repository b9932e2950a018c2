//===- Composer.cpp - Short names for building nn ops ---------------------===//
#include "dialects/nn/Decompose/Composer.h"
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Random.h"
#include "dialects/nn/Ops/Reduce.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

Composer::Composer(OpBuilder &b, Operation *op) : b(b), loc(op->getLoc()) {
  NamedAttrList attrs(op->getDiscardableAttrDictionary());
  attrs.erase(dist::kShardingsAttr);
  attrs.erase(dist::kFactorsAttr);
  marks = attrs.getDictionary(b.getContext());
}

/// Copies scope and phase from the decomposed op to an op made for it.
template <typename Op> Op Composer::marked(Op made) {
  made->setDiscardableAttrs(marks);
  return made;
}

template <typename Op, typename... Args> Op Composer::make(Type type, Args &&...args) {
  return marked(Op::create(b, loc, type, std::forward<Args>(args)...));
}

Value Composer::add(Value x, Value y) { return make<AddOp>(x.getType(), x, y); }

Value Composer::sub(Value x, Value y) { return make<SubOp>(x.getType(), x, y); }

Value Composer::mul(Value x, Value y) { return make<MulOp>(x.getType(), x, y); }

Value Composer::div(Value x, Value y) { return make<DivOp>(x.getType(), x, y); }

Value Composer::max(Value x, Value y) { return make<MaxOp>(x.getType(), x, y); }

Value Composer::min(Value x, Value y) { return make<MinOp>(x.getType(), x, y); }

Value Composer::exp(Value x) { return make<ExpOp>(x.getType(), x); }

Value Composer::log(Value x) { return make<LogOp>(x.getType(), x); }

Value Composer::abs(Value x) { return make<AbsOp>(x.getType(), x); }

Value Composer::floor(Value x) { return make<FloorOp>(x.getType(), x); }

Value Composer::neg(Value x) { return make<NegOp>(x.getType(), x); }

Value Composer::sqrt(Value x) { return make<SqrtOp>(x.getType(), x); }

Value Composer::select(Value c, Value x, Value y) { return make<SelectOp>(x.getType(), c, x, y); }

Value Composer::both(Value x, Value y) { return make<AndOp>(x.getType(), x, y); }

Value Composer::no(Value x) { return make<NotOp>(x.getType(), x); }

Value Composer::compare(Predicate p, Value x, Value y) {
  return make<CompareOp>(shaped(x, b.getI1Type()), p, x, y);
}

Value Composer::cast(Value x, Type element) {
  return elementOf(x) == element ? x : Value(make<CastOp>(shaped(x, element), x));
}

Value Composer::bitcast(Value x, Type element) { return make<BitcastOp>(shaped(x, element), x); }

Value Composer::splat(Value like, double value) { return splat(type(like), value); }

Value Composer::splat(RankedTensorType type, double value) {
  return marked(nn::splat(b, loc, type, value).getDefiningOp())->getResult(0);
}

Value Composer::constant(DenseElementsAttr value) {
  return marked(ConstantOp::create(b, loc, value));
}

Value Composer::dropout(Value x, Value seed, Value step, Value microbatch, Value offset,
                        FloatAttr ratio, IntegerAttr id, DenseI64ArrayAttr whole) {
  return make<DropoutOp>(x.getType(), x, seed, step, microbatch, offset, ratio, id, whole);
}

Value Composer::iota(RankedTensorType type, int64_t dim) { return make<IotaOp>(type, dim); }

Value Composer::reshape(Value x, ArrayRef<int64_t> shape) {
  return shape == type(x).getShape() ? x : Value(make<ReshapeOp>(withShape(x, shape), x));
}

Value Composer::broadcast(Value x, ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  return make<BroadcastOp>(withShape(x, shape), x, dims);
}

Value Composer::alongRows(Value x, Value like) {
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, type(x).getRank()));
  return broadcast(x, type(like).getShape(), dims);
}

Value Composer::alongColumns(Value x, Value like) {
  return broadcast(x, type(like).getShape(), {type(like).getRank() - 1});
}

Value Composer::scalar(Value x, Value like) { return broadcast(x, type(like).getShape(), {}); }

Value Composer::slice(Value x, int64_t dim, int64_t start, int64_t limit, int64_t stride) {
  SmallVector<int64_t> shape(type(x).getShape()), starts(shape.size()), limits(shape),
      strides(shape.size(), 1);
  starts[dim] = start, limits[dim] = limit, strides[dim] = stride;
  shape[dim] = (limit - start + stride - 1) / stride;
  return make<SliceOp>(withShape(x, shape), x, starts, limits, strides);
}

Value Composer::concat(ValueRange xs, ArrayRef<int64_t> shape, int64_t dim) {
  return make<ConcatOp>(withShape(xs[0], shape), xs, dim);
}

Value Composer::transpose(Value x, ArrayRef<int64_t> perm) {
  SmallVector<int64_t> shape;
  for (int64_t dim : perm)
    shape.push_back(type(x).getDimSize(dim));
  return make<TransposeOp>(withShape(x, shape), x, perm);
}

Value Composer::reduce(ReduceKind kind, Value x, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> shape;
  for (int64_t i = 0; i < type(x).getRank(); ++i)
    if (!llvm::is_contained(dims, i))
      shape.push_back(type(x).getDimSize(i));
  return make<ReduceOp>(withShape(x, shape), kind, x, dims);
}

Value Composer::reduceRows(ReduceKind kind, Value x) {
  return reduce(kind, x, {type(x).getRank() - 1});
}

Value Composer::sumColumns(Value x) {
  return reduce(ReduceKind::Sum, x, llvm::to_vector(llvm::seq<int64_t>(0, type(x).getRank() - 1)));
}

Value Composer::sumOver(StringRef axis, Value x) {
  return marked(dist::AllReduceOp::create(b, loc, dist::Reduction::Sum, x, axis));
}

Value Composer::matmul(Value x, Value y, bool tx, bool ty, Type element) {
  SmallVector<int64_t> shape(type(x).getShape());
  size_t rank = shape.size();
  shape[rank - 2] = type(x).getDimSize(rank - (tx ? 1 : 2));
  shape[rank - 1] = type(y).getDimSize(rank - (ty ? 2 : 1));
  RankedTensorType result = withShape(x, shape);
  return make<MatmulOp>(element ? result.clone(element) : result, x, y, tx, ty);
}
