//===- VectorEmitter.cpp - Emits elements as vectors ----------------------===//
#include "lib/Target/CPU/VectorEmitter.h"
#include "dialects/interfaces/Float8.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace shale;

LinearIndex VectorEmitter::addLanes(int64_t size, Value value, DimOrigin origin,
                                    unsigned position) {
  LinearIndex index = addDim(size, value, origin, position);
  if (lanes > 1 && !index.terms.empty())
    laneDim = index.terms.front().first;
  return index;
}

// ---- memory

static Value fromMemory(OpBuilder &b, Location loc, Value value, Type element) {
  if (is16BitFloat(element) || is8BitFloat(element)) {
    Type type = element;
    if (auto wide = dyn_cast<VectorType>(value.getType()))
      type = wide.clone(element);
    return arith::BitcastOp::create(b, loc, type, value);
  }
  if (!element.isInteger(1))
    return value;
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value,
                               constantLike(b, loc, value.getType(), 0));
}

static Value stepVector(OpBuilder &b, Location loc, int64_t lanes, int64_t factor, Type element) {
  SmallVector<APInt> values;
  for (int64_t i = 0; i < lanes; ++i)
    values.push_back(APInt(element.getIntOrFloatBitWidth(), i * factor, /*isSigned=*/true,
                           /*implicitTrunc=*/true));
  return arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(VectorType::get({lanes}, element), values));
}

Value VectorEmitter::load(Value memref, Type element, const LinearIndex &index) {
  Value offset = indices.materialize(index);
  int64_t step = laneStep(index);
  Type stored = memoryType(element);
  if (step == 0)
    return fromMemory(b, loc, memref::LoadOp::create(b, loc, memref, offset), element);
  VectorType wide = vectorOf(stored);
  Value nothing = constantLike(b, loc, wide, 0), value;
  if (step == 1 && !mask) {
    value = vector::LoadOp::create(b, loc, wide, memref, offset);
  } else if (step == 1) {
    value = vector::MaskedLoadOp::create(b, loc, wide, memref, offset, mask, nothing);
  } else {
    Value all = mask ? mask : constantLike(b, loc, vectorOf(b.getI1Type()), 1);
    Value places = stepVector(b, loc, lanes, step, b.getI64Type());
    value = vector::GatherOp::create(b, loc, wide, memref, offset, places, all, nothing);
  }
  return fromMemory(b, loc, value, element);
}

void VectorEmitter::store(Value memref, const LinearIndex &index, Value element) {
  Value offset = indices.materialize(index);
  int64_t step = laneStep(index);
  if (getElementTypeOrSelf(element.getType()).isInteger(1)) {
    Type byte = b.getI8Type();
    if (auto wide = dyn_cast<VectorType>(element.getType()))
      byte = wide.clone(byte);
    element = arith::ExtUIOp::create(b, loc, byte, element);
  } else if (Type type = getElementTypeOrSelf(element.getType());
             is16BitFloat(type) || is8BitFloat(type)) {
    Type bits = memoryType(type);
    if (auto wide = dyn_cast<VectorType>(element.getType()))
      bits = wide.clone(bits);
    element = arith::BitcastOp::create(b, loc, bits, element);
  }
  if (step == 0) {
    memref::StoreOp::create(b, loc, element, memref, offset);
    return;
  }
  if (!isa<VectorType>(element.getType()))
    element = vector::BroadcastOp::create(b, loc, vectorOf(element.getType()), element);
  if (step != 1) {
    Value all = mask ? mask : constantLike(b, loc, vectorOf(b.getI1Type()), 1);
    Value places = stepVector(b, loc, lanes, step, b.getI64Type());
    vector::ScatterOp::create(b, loc, /*resultType=*/Type(), memref, offset, places, all, element);
  } else if (mask) {
    vector::MaskedStoreOp::create(b, loc, memref, offset, mask, element);
  } else {
    vector::StoreOp::create(b, loc, element, memref, offset);
  }
}

// ---- interface of the ops

Value VectorEmitter::widen(const LinearIndex &at, Value value) {
  if (laneStep(at) == 0 || isa<VectorType>(value.getType()))
    return value;
  return vector::BroadcastOp::create(b, loc, vectorOf(value.getType()), value);
}

Value VectorEmitter::number(const LinearIndex &index, Type element) {
  bool real = isa<FloatType>(element);
  auto [low, high] = indices.rangeOf(index);
  bool small = low >= INT32_MIN && high <= INT32_MAX;
  Type integer = real ? Type(b.getIntegerType(small ? 32 : 64)) : element;
  Value value = arith::IndexCastOp::create(b, loc, integer, indices.materialize(index));
  if (int64_t step = laneStep(index)) {
    value = vector::BroadcastOp::create(b, loc, vectorOf(integer), value);
    value = arith::AddIOp::create(b, loc, value, stepVector(b, loc, lanes, step, integer));
  }
  if (!real)
    return value;
  Type type = element;
  if (auto wide = dyn_cast<VectorType>(value.getType()))
    type = wide.clone(element);
  return arith::SIToFPOp::create(b, loc, type, value);
}

Value shale::foldLanes(OpBuilder &b, Location loc, Value wide,
                       llvm::function_ref<Value(Value, Value)> combine) {
  auto type = cast<VectorType>(wide.getType());
  for (int64_t width = type.getNumElements(); width > 1; width /= 2) {
    Value low = vector::ExtractStridedSliceOp::create(
        b, loc, wide, ArrayRef<int64_t>{0}, ArrayRef<int64_t>{width / 2}, ArrayRef<int64_t>{1});
    Value high =
        vector::ExtractStridedSliceOp::create(b, loc, wide, ArrayRef<int64_t>{width / 2},
                                              ArrayRef<int64_t>{width / 2}, ArrayRef<int64_t>{1});
    wide = combine(low, high);
  }
  return vector::ExtractOp::create(b, loc, wide, ArrayRef<int64_t>{0});
}
