//===- NodeOps.cpp - Building of ops for a node ---------------------------===//
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Frontend/ONNX/Building.h"
#include "lib/Frontend/ONNX/Trace.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

Sizes onnx::withSize(ArrayRef<int64_t> shape, int64_t dim, int64_t size) {
  Sizes copy(shape);
  copy[dim] = size;
  return copy;
}

Sizes onnx::withoutDim(ArrayRef<int64_t> shape, int64_t dim) {
  Sizes copy(shape);
  copy.erase(copy.begin() + dim);
  return copy;
}

Sizes onnx::withDim(ArrayRef<int64_t> shape, int64_t dim, int64_t size) {
  Sizes copy(shape);
  copy.insert(copy.begin() + dim, size);
  return copy;
}

Sizes onnx::joinedSizes(std::initializer_list<ArrayRef<int64_t>> lists) {
  Sizes all;
  for (ArrayRef<int64_t> list : lists)
    llvm::append_range(all, list);
  return all;
}

Sizes onnx::dimRange(int64_t first, int64_t end) { return llvm::to_vector(llvm::seq(first, end)); }

Sizes onnx::allDims(int64_t rank) { return dimRange(0, rank); }

Sizes onnx::dimToEnd(int64_t rank, int64_t dim) {
  Sizes dims = allDims(rank);
  std::rotate(dims.begin() + dim, dims.begin() + dim + 1, dims.end());
  return dims;
}

Sizes onnx::dimAndLast(int64_t rank, int64_t dim) {
  Sizes dims = allDims(rank);
  std::swap(dims[dim], dims[rank - 1]);
  return dims;
}

Value Node::finish(Operation *op) {
  for (Type result : op->getResultTypes())
    if (nn::tensorBytes(llvm::cast<RankedTensorType>(result)) < 0) {
      (void)error("the result's size overflows 64 bits");
      return {};
    }
  if (failed(op->getName().verifyInvariants(op))) { // after its own diagnostic
    failedOnce = true;
    return {};
  }
  return building.finish(op);
}

void Node::adopt(Operation *op) { building.mark(op); }

Value Node::constant(RankedTensorType type, double value) {
  return nn::splat(builder, loc, type, value);
}

Value Node::constant(ArrayRef<int64_t> values) {
  auto type = RankedTensorType::get({int64_t(values.size())}, builder.getI64Type());
  return nn::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, values));
}

Value Node::like(Value value, double number) {
  return value ? constant(type(value), number) : Value();
}

Value Node::iota(ArrayRef<int64_t> shape, int64_t dim, Type element) {
  auto type = RankedTensorType::get(shape, element ? element : builder.getI64Type());
  return nn::IotaOp::create(builder, loc, type, dim);
}

Value Node::reshape(Value value, ArrayRef<int64_t> shape) {
  if (!value || type(value).getShape() == shape)
    return value;
  if (auto previous = value.getDefiningOp<nn::ReshapeOp>())
    return reshape(previous.getInput(), shape);
  return create<nn::ReshapeOp>(RankedTensorType::get(shape, type(value).getElementType()), value);
}

Value Node::unsqueeze(Value value, int64_t dim) {
  return value ? reshape(value, withDim(type(value).getShape(), dim, 1)) : Value();
}

Value Node::squeeze(Value value, int64_t dim) {
  return value ? reshape(value, withoutDim(type(value).getShape(), dim)) : Value();
}

Value Node::transpose(Value value, ArrayRef<int64_t> perm, bool joined) {
  if (!value)
    return {};
  SmallVector<int64_t> order(perm), shape;
  if (auto inner = joined ? value.getDefiningOp<nn::TransposeOp>() : nn::TransposeOp()) {
    for (int64_t &dim : order)
      dim = inner.getPerm()[dim];
    value = inner.getInput();
  }
  if (llvm::is_sorted(order))
    return value;
  for (int64_t dim : order)
    shape.push_back(type(value).getDimSize(dim));
  return create<nn::TransposeOp>(type(value).clone(shape), value, order);
}

LogicalResult Node::broadcastShape(ArrayRef<Value> values, SmallVectorImpl<int64_t> &shape,
                                   int64_t inner) {
  shape.clear();
  for (Value value : values) {
    ArrayRef<int64_t> other = type(value).getShape().drop_back(inner);
    if (other.size() > shape.size())
      shape.insert(shape.begin(), other.size() - shape.size(), 1);
    for (size_t i = 0; i < other.size(); ++i) {
      int64_t &size = shape[shape.size() - other.size() + i];
      if (size == 1)
        size = other[i];
      else if (other[i] != 1 && other[i] != size)
        return error(
            "shapes do not broadcast: sizes " + Twine(size) + " and " + Twine(other[i]) + " meet" +
            broadcastHint(building.context.options, building.states, values, size, other[i]));
    }
  }
  return success();
}

Value Node::broadcast(Value value, ArrayRef<int64_t> shape) {
  if (!value || type(value).getShape() == shape)
    return value;
  SmallVector<int64_t> dims;
  for (int64_t i = 0, rank = type(value).getRank(); i < rank; ++i)
    dims.push_back(int64_t(shape.size()) - rank + i);
  return create<nn::BroadcastOp>(RankedTensorType::get(shape, type(value).getElementType()), value,
                                 dims);
}

Value Node::slice(Value value, ArrayRef<int64_t> starts, ArrayRef<int64_t> limits,
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

Value Node::part(Value value, int64_t dim, int64_t from, int64_t to, int64_t stride) {
  if (!value)
    return {};
  SmallVector<int64_t> starts(type(value).getRank(), 0), limits(type(value).getShape()),
      strides(starts.size(), 1);
  starts[dim] = from, limits[dim] = to, strides[dim] = stride;
  return slice(value, starts, limits, strides);
}

LogicalResult Node::cut(Value value, int64_t dim, ArrayRef<int64_t> sizes,
                        SmallVectorImpl<Value> &parts) {
  int64_t size = type(value).getDimSize(dim), at = 0;
  for (int64_t own : sizes) {
    if (own < 0 || own > size - at)
      return error("parts do not sum to the dimension's size {}", size);
    parts.push_back(part(value, dim, at, at + own));
    at += own;
  }
  return at == size ? success()
                    : LogicalResult(error("parts sum to {}, the dimension has {}", at, size));
}

Value Node::padded(Value value, ArrayRef<int64_t> low, ArrayRef<int64_t> high,
                   ArrayRef<int64_t> interior, double number) {
  if (!value)
    return {};
  Sizes shape(type(value).getShape()), between(interior);
  between.resize(shape.size(), 0);
  for (auto [d, size] : llvm::enumerate(shape))
    size += low[d] + high[d] + std::max<int64_t>(size - 1, 0) * between[d];
  auto list = [&](ArrayRef<int64_t> values) { return builder.getDenseI64ArrayAttr(values); };
  return create<nn::PadOp>(type(value).clone(shape), value, list(low), list(high), list(between),
                           builder.getF64FloatAttr(number));
}

Value Node::padded(Value value, ArrayRef<int64_t> shape) {
  if (!value || type(value).getShape() == shape)
    return value;
  Sizes high(shape);
  for (auto [end, size] : llvm::zip(high, type(value).getShape()))
    end -= size;
  return padded(value, Sizes(shape.size(), 0), high);
}

Value Node::joined(ArrayRef<Value> parts, int64_t dim) {
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

Value Node::cast(Value value, Type element) {
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

Value Node::sum(Value value, ArrayRef<int64_t> dims, bool keepDims) {
  return reduce(nn::ReduceKind::Sum, value, dims, keepDims);
}

LogicalResult Node::match(Operand &lhs, Operand &rhs) {
  if (lhs.isNull() || rhs.isNull())
    return failure();
  if (lhs.number)
    lhs.value = like(rhs.value, *lhs.number);
  if (rhs.number)
    rhs.value = like(lhs.value, *rhs.number);
  SmallVector<int64_t> shape;
  if (failed(broadcastShape({lhs.value, rhs.value}, shape)))
    return failure();
  Type one = type(lhs.value).getElementType(), other = type(rhs.value).getElementType();
  if (one != other)
    return error("operands have element types {} and {}", one, other);
  lhs.value = broadcast(lhs.value, shape);
  rhs.value = broadcast(rhs.value, shape);
  return success(lhs.value && rhs.value);
}

Value Node::binary(Operand lhs, Operand rhs, nn::Predicate predicate) {
  if (failed(match(lhs, rhs)))
    return {};
  return create<nn::CompareOp>(type(lhs.value).clone(builder.getI1Type()), predicate, lhs.value,
                               rhs.value);
}

Value Node::select(Value condition, Operand yes, Operand no) {
  if (!condition || yes.isNull() || no.isNull())
    return {};
  if (yes.number)
    yes.value = like(no.value, *yes.number);
  if (no.number)
    no.value = like(yes.value, *no.number);
  return create<nn::SelectOp>(yes.value.getType(), condition, yes.value, no.value);
}

Value Node::add(Operand lhs, Operand rhs) { return binary<nn::AddOp>(lhs, rhs); }
Value Node::sub(Operand lhs, Operand rhs) { return binary<nn::SubOp>(lhs, rhs); }
Value Node::mul(Operand lhs, Operand rhs) { return binary<nn::MulOp>(lhs, rhs); }
Value Node::div(Operand lhs, Operand rhs) { return binary<nn::DivOp>(lhs, rhs); }
Value Node::max(Operand lhs, Operand rhs) { return binary<nn::MaxOp>(lhs, rhs); }
Value Node::min(Operand lhs, Operand rhs) { return binary<nn::MinOp>(lhs, rhs); }
Value Node::both(Value lhs, Value rhs) { return binary<nn::AndOp>(lhs, rhs); }
Value Node::either(Value lhs, Value rhs) { return binary<nn::OrOp>(lhs, rhs); }
Value Node::abs(Value x) { return unary<nn::AbsOp>(x); }
Value Node::cos(Value x) { return unary<nn::CosOp>(x); }
Value Node::exp(Value x) { return unary<nn::ExpOp>(x); }
Value Node::expm1(Value x) { return unary<nn::Expm1Op>(x); }
Value Node::floor(Value x) { return unary<nn::FloorOp>(x); }
Value Node::log(Value x) { return unary<nn::LogOp>(x); }
Value Node::log1p(Value x) { return unary<nn::Log1pOp>(x); }
Value Node::neg(Value x) { return unary<nn::NegOp>(x); }
Value Node::relu(Value x) { return max(x, 0); }
Value Node::rsqrt(Value x) { return unary<nn::RsqrtOp>(x); }
Value Node::sigmoid(Value x) { return unary<nn::SigmoidOp>(x); }
Value Node::sin(Value x) { return unary<nn::SinOp>(x); }
Value Node::sqrt(Value x) { return unary<nn::SqrtOp>(x); }
Value Node::tanh(Value x) { return unary<nn::TanhOp>(x); }
Value Node::stopped(Value x) { return unary<nn::StopGradientOp>(x); }

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
