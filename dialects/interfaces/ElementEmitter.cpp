//===- ElementEmitter.cpp - Emits one element of a tensor value -----------===//
#include "dialects/interfaces/ElementEmitter.h"
#include "dialects/interfaces/Float8.h"
#include "dialects/interfaces/Numeric.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace shale;

LinearIndex LinearIndex::plus(const LinearIndex &other) const {
  LinearIndex sum{constant + other.constant, {}};
  auto left = terms.begin(), right = other.terms.begin();
  while (left != terms.end() || right != other.terms.end()) {
    if (right == other.terms.end() || (left != terms.end() && left->first < right->first)) {
      sum.terms.push_back(*left++);
    } else if (left == terms.end() || right->first < left->first) {
      sum.terms.push_back(*right++);
    } else {
      if (int64_t both = left->second + right->second)
        sum.terms.push_back({left->first, both});
      ++left, ++right;
    }
  }
  return sum;
}

LinearIndex LinearIndex::plus(int64_t value) const {
  LinearIndex sum = *this;
  sum.constant += value;
  return sum;
}

LinearIndex LinearIndex::times(int64_t factor) const {
  LinearIndex product{constant * factor, {}};
  if (factor != 0)
    for (auto [id, coefficient] : terms)
      product.terms.push_back({id, coefficient * factor});
  return product;
}

int64_t LinearIndex::coefficient(unsigned id) const {
  for (auto [dim, coefficient] : terms)
    if (dim == id)
      return coefficient;
  return 0;
}

LinearIndex shale::linearize(ArrayRef<LinearIndex> indices, ArrayRef<int64_t> shape) {
  LinearIndex sum;
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i])
    sum = sum.plus(indices[i].times(stride));
  return sum;
}

bool ElementEmitter::delinearize(const LinearIndex &index, ArrayRef<int64_t> shape,
                                 SmallVectorImpl<LinearIndex> &indices) {
  indices.assign(shape.size(), LinearIndex());
  LinearIndex rest = index;
  for (size_t i = shape.size(); i-- > 0;) {
    // Every multiple of a size-1 dimension is 0, and the first takes what is left.
    if (i == 0) {
      indices[0] = rest;
      break;
    }
    LinearIndex quotient;
    if (!divide(rest, shape[i], quotient, indices[i]))
      return false;
    rest = quotient;
  }
  return true;
}

void shale::matchLanes(OpBuilder &builder, Location loc, MutableArrayRef<Value> values) {
  VectorType wide;
  for (Value value : values)
    if (auto type = dyn_cast<VectorType>(value.getType()))
      wide = type;
  if (!wide)
    return;
  for (Value &value : values)
    if (!isa<VectorType>(value.getType()))
      value = vector::BroadcastOp::create(builder, loc, wide.clone(value.getType()), value);
}

Value shale::constantLike(OpBuilder &builder, Location loc, Type type, double value) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr scalar;
  if (isa<FloatType>(element))
    scalar = builder.getFloatAttr(element, value);
  else
    scalar = builder.getIntegerAttr(element, int64_t(value));
  if (auto wide = dyn_cast<VectorType>(type))
    return arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(wide, Attribute(scalar)));
  return arith::ConstantOp::create(builder, loc, scalar);
}

Type shale::likeShape(Value value, Type element) {
  if (auto wide = dyn_cast<VectorType>(value.getType()))
    return wide.clone(element);
  return element;
}

Type shale::memoryType(Type element) {
  if (element.isInteger(1))
    return IntegerType::get(element.getContext(), 8);
  if (is8BitFloat(element))
    return IntegerType::get(element.getContext(), 8);
  return is16BitFloat(element) ? Type(IntegerType::get(element.getContext(), 16)) : element;
}

// bf16 is the upper half of f32.
Value shale::widen16Bits(OpBuilder &b, Location loc, Value value) {
  Type element = getElementTypeOrSelf(value.getType());
  if (element.isF16())
    return arith::ExtFOp::create(b, loc, likeShape(value, b.getF32Type()), value);
  if (!element.isBF16())
    return value;
  Value bits = arith::BitcastOp::create(b, loc, likeShape(value, b.getI16Type()), value);
  bits = arith::ExtUIOp::create(b, loc, likeShape(value, b.getI32Type()), bits);
  bits = arith::ShLIOp::create(b, loc, bits, constantLike(b, loc, bits.getType(), 16));
  return arith::BitcastOp::create(b, loc, likeShape(value, b.getF32Type()), bits);
}

Value shale::narrowTo16Bits(OpBuilder &b, Location loc, Value value, Type narrow) {
  return arith::TruncFOp::create(b, loc, likeShape(value, narrow), value);
}
