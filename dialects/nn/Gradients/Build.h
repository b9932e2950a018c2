//===- Build.h - Short names for the ops that build gradients -------------===//
#ifndef SHALE_NN_GRADIENTS_BUILD_H
#define SHALE_NN_GRADIENTS_BUILD_H

#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Reduce.h"

namespace shale::nn {

/// Creates ops at a builder, all with one location.
struct Build {
  using Value = mlir::Value;
  using Type = mlir::RankedTensorType;

  mlir::OpBuilder &builder;
  mlir::Location loc;

  static Type type(Value value) { return mlir::cast<mlir::RankedTensorType>(value.getType()); }
  template <typename OpT> Value unary(Value x) const {
    return OpT::create(builder, loc, x.getType(), x);
  }
  template <typename OpT> Value binary(Value a, Value b) const {
    return OpT::create(builder, loc, a.getType(), a, b);
  }
  Value add(Value a, Value b) const { return binary<AddOp>(a, b); }
  Value sub(Value a, Value b) const { return binary<SubOp>(a, b); }
  Value mul(Value a, Value b) const { return binary<MulOp>(a, b); }
  Value div(Value a, Value b) const { return binary<DivOp>(a, b); }
  Value neg(Value x) const { return unary<NegOp>(x); }
  Value exp(Value x) const { return unary<ExpOp>(x); }

  /// A constant of the type of `like`.
  Value constant(Value like, double value) const { return splat(builder, loc, type(like), value); }
  Value scaled(Value x, double factor) const { return mul(x, constant(x, factor)); }
  /// x + value
  Value shifted(Value x, double value) const { return add(x, constant(x, value)); }
  Value compare(Predicate predicate, Value a, Value b) const {
    auto result = type(a).clone(builder.getI1Type());
    return CompareOp::create(builder, loc, result, predicate, a, b);
  }
  Value select(Value condition, Value a, Value b) const {
    return SelectOp::create(builder, loc, a.getType(), condition, a, b);
  }
  Value cast(Value x, mlir::Type element) const {
    if (type(x).getElementType() == element)
      return x;
    return CastOp::create(builder, loc, type(x).clone(element), x);
  }
  // In Data.cpp: only few files that build gradients depend on nn's data ops.
  Value reshape(Value x, Type to) const;
  Value broadcast(Value x, Type to, llvm::ArrayRef<int64_t> dims) const;
  Value reduce(ReduceKind kind, Value x, llvm::ArrayRef<int64_t> dims) const {
    llvm::SmallVector<int64_t> shape;
    for (auto [d, size] : llvm::enumerate(type(x).getShape()))
      if (!llvm::is_contained(dims, int64_t(d)))
        shape.push_back(size);
    auto result = Type::get(shape, type(x).getElementType());
    return ReduceOp::create(builder, loc, result, kind, x, dims);
  }
};

} // namespace shale::nn

#endif // SHALE_NN_GRADIENTS_BUILD_H
