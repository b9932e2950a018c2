//===- NodeOps.cpp - Building of ops for a node ---------------------------===//
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Frontend/ONNX/Building.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

Value NodeOps::finish(Operation *op) {
  for (Type result : op->getResultTypes())
    if (nn::tensorBytes(llvm::cast<RankedTensorType>(result)) < 0) {
      (void)error("the result's size overflows 64 bits");
      return {};
    }
  if (failed(op->getName().verifyInvariants(op))) { // after its own diagnostic
    noteFailure();
    return {};
  }
  return building.finish(op);
}

void NodeOps::adopt(Operation *op) { building.setScope(op); }

Value NodeOps::constant(RankedTensorType type, double value) {
  return nn::splat(builder, loc, type, value);
}

Value NodeOps::constant(ArrayRef<int64_t> values) {
  auto type = RankedTensorType::get({int64_t(values.size())}, builder.getI64Type());
  return nn::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, values));
}

Value NodeOps::reshape(Value value, ArrayRef<int64_t> shape) {
  if (!value || type(value).getShape() == shape)
    return value;
  if (auto previous = value.getDefiningOp<nn::ReshapeOp>())
    return reshape(previous.getInput(), shape);
  return create<nn::ReshapeOp>(RankedTensorType::get(shape, type(value).getElementType()), value);
}

Value NodeOps::transpose(Value value, ArrayRef<int64_t> perm) {
  if (!value)
    return {};
  SmallVector<int64_t> shape;
  bool identity = true;
  for (auto [i, p] : llvm::enumerate(perm)) {
    shape.push_back(type(value).getDimSize(p));
    identity &= int64_t(i) == p;
  }
  if (identity)
    return value;
  return create<nn::TransposeOp>(RankedTensorType::get(shape, type(value).getElementType()), value,
                                 perm);
}

LogicalResult NodeOps::broadcastShape(ArrayRef<Value> values, SmallVectorImpl<int64_t> &shape) {
  shape.clear();
  for (Value value : values) {
    ArrayRef<int64_t> other = type(value).getShape();
    if (other.size() > shape.size())
      shape.insert(shape.begin(), other.size() - shape.size(), 1);
    for (size_t i = 0; i < other.size(); ++i) {
      int64_t &size = shape[shape.size() - other.size() + i];
      if (size == 1)
        size = other[i];
      else if (other[i] != 1 && other[i] != size)
        return error("shapes do not broadcast: sizes " + Twine(size) + " and " + Twine(other[i]) +
                     " meet" + building.broadcastHint(values, size, other[i]));
    }
  }
  return success();
}

Value NodeOps::broadcast(Value value, ArrayRef<int64_t> shape) {
  if (!value || type(value).getShape() == shape)
    return value;
  SmallVector<int64_t> dims;
  for (int64_t i = 0, rank = type(value).getRank(); i < rank; ++i)
    dims.push_back(int64_t(shape.size()) - rank + i);
  return create<nn::BroadcastOp>(RankedTensorType::get(shape, type(value).getElementType()), value,
                                 dims);
}

Value NodeOps::slice(Value value, ArrayRef<int64_t> starts, ArrayRef<int64_t> limits,
                     ArrayRef<int64_t> strides) {
  if (!value)
    return {};
  SmallVector<int64_t> shape;
  for (size_t i = 0; i < starts.size(); ++i)
    shape.push_back((limits[i] - starts[i] + strides[i] - 1) / strides[i]);
  if (type(value).getShape() == ArrayRef<int64_t>(shape))
    return value;
  return create<nn::SliceOp>(RankedTensorType::get(shape, type(value).getElementType()), value,
                             starts, limits, strides);
}

Value NodeOps::padded(Value value, ArrayRef<int64_t> low, ArrayRef<int64_t> high,
                      ArrayRef<int64_t> interior) {
  if (!value)
    return {};
  SmallVector<int64_t> shape(type(value).getShape());
  for (auto [d, size] : llvm::enumerate(shape))
    size += low[d] + high[d] + std::max<int64_t>(size - 1, 0) * interior[d];
  auto list = [&](ArrayRef<int64_t> values) { return builder.getDenseI64ArrayAttr(values); };
  return create<nn::PadOp>(type(value).clone(shape), value, list(low), list(high), list(interior),
                           builder.getF64FloatAttr(0));
}

Value NodeOps::padded(Value value, ArrayRef<int64_t> shape) {
  if (!value || type(value).getShape() == shape)
    return value;
  SmallVector<int64_t> none(shape.size(), 0), high(shape);
  for (auto [end, size] : llvm::zip(high, type(value).getShape()))
    end -= size;
  return padded(value, none, high, none);
}

Value NodeOps::joined(ArrayRef<Value> parts, int64_t dim) {
  SmallVector<Value> values;
  int64_t size = 0;
  for (Value part : parts) {
    if (!part)
      return {};
    if (type(part).getDimSize(dim) != 0)
      values.push_back(part);
    size += type(part).getDimSize(dim);
  }
  if (values.size() < 2)
    return values.empty() ? parts.front() : values.front();
  SmallVector<int64_t> shape(type(parts.front()).getShape());
  shape[dim] = size;
  return create<nn::ConcatOp>(type(parts.front()).clone(shape), values, dim);
}

Value NodeOps::cast(Value value, Type element) {
  if (!value || type(value).getElementType() == element)
    return value;
  return create<nn::CastOp>(type(value).clone(element), value);
}

Value Node::reduce(nn::ReduceKind kind, Value value, ArrayRef<int64_t> dims, bool keepDims) {
  if (!value)
    return {};
  SmallVector<int64_t> shape, kept;
  for (int64_t i = 0; i < type(value).getRank(); ++i) {
    bool reduced = llvm::is_contained(dims, i);
    if (!reduced)
      shape.push_back(type(value).getDimSize(i));
    kept.push_back(reduced ? 1 : type(value).getDimSize(i));
  }
  Value result = value;
  if (!dims.empty())
    result = create<nn::ReduceOp>(RankedTensorType::get(shape, type(value).getElementType()), kind,
                                  value, dims);
  return keepDims ? reshape(result, kept) : result;
}

Value Node::binary(Value lhs, Value rhs, nn::Predicate predicate) {
  Value values[] = {lhs, rhs};
  SmallVector<int64_t> shape;
  if (!lhs || !rhs || failed(broadcastShape(values, shape)))
    return {};
  lhs = broadcast(lhs, shape);
  rhs = broadcast(rhs, shape);
  if (!lhs || !rhs)
    return {};
  if (lhs.getType() != rhs.getType()) {
    (void)error("operands have types " + name(lhs.getType()) + " and " + name(rhs.getType()));
    return {};
  }
  return create<nn::CompareOp>(type(lhs).clone(builder.getI1Type()), predicate, lhs, rhs);
}

Value Node::matmul(Value lhs, Value rhs, bool transposeLhs, bool transposeRhs) {
  if (!lhs || !rhs)
    return {};
  // A product with a transposed matrix reads the matrix itself.
  auto peel = [](Value &value, bool &flag) {
    auto transpose = value.getDefiningOp<nn::TransposeOp>();
    if (transpose && transpose.getPerm() == ArrayRef<int64_t>{1, 0}) {
      value = transpose.getInput();
      flag = !flag;
    }
  };
  peel(lhs, transposeLhs);
  peel(rhs, transposeRhs);
  SmallVector<int64_t> left(type(lhs).getShape()), right(type(rhs).getShape());
  size_t rank = left.size();
  Type element = type(lhs).getElementType();
  int64_t m = left[rank - (transposeLhs ? 1 : 2)], k = left[rank - (transposeLhs ? 2 : 1)];
  int64_t n = right[rank - (transposeRhs ? 2 : 1)], k2 = right[rank - (transposeRhs ? 1 : 2)];
  if (k != k2 || element != type(rhs).getElementType() || !isa<FloatType>(element)) {
    (void)error("matrices " + name(lhs.getType()) + " and " + name(rhs.getType()) +
                " do not multiply");
    return {};
  }
  SmallVector<int64_t> shape(ArrayRef<int64_t>(left).drop_back(2));
  shape.append({m, n});
  return create<nn::MatmulOp>(RankedTensorType::get(shape, element), lhs, rhs, transposeLhs,
                              transposeRhs);
}
