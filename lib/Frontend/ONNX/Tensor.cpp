//===- Tensor.cpp - Values of a node, and arithmetic on them --------------===//
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Frontend/ONNX/Building.h"

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
  return joinedSizes({withoutDim(allDims(rank), dim), {dim}});
}

Sizes onnx::inverse(ArrayRef<int64_t> perm) {
  Sizes back(perm.size());
  for (auto [to, from] : llvm::enumerate(perm))
    back[from] = to;
  return back;
}

Sizes onnx::dimAndLast(int64_t rank, int64_t dim) {
  Sizes dims = allDims(rank);
  std::swap(dims[dim], dims[rank - 1]);
  return dims;
}

Tensor Node::finish(Operation *op) {
  for (Type result : op->getResultTypes())
    if (nn::tensorBytes(llvm::cast<RankedTensorType>(result)) < 0)
      return error("the result's size overflows 64 bits");
  if (failed(op->getName().verifyInvariants(op))) { // after its own diagnostic
    failedOnce = true;
    return {};
  }
  return Tensor(*this, building.finish(op));
}

void Node::adopt(Operation *op) { building.mark(op); }

Tensor Node::constant(RankedTensorType type, double value) {
  return Tensor(*this, nn::splat(builder, loc, type, value));
}

Tensor Node::constant(ArrayRef<int64_t> values) {
  auto type = RankedTensorType::get({int64_t(values.size())}, builder.getI64Type());
  return constant(DenseElementsAttr::get(type, values));
}

Tensor Node::constant(DenseElementsAttr values) {
  return values ? Tensor(*this, nn::ConstantOp::create(builder, loc, values)) : Tensor();
}

Tensor Node::iota(ArrayRef<int64_t> shape, int64_t dim, Type element) {
  auto type = RankedTensorType::get(shape, element ? element : builder.getI64Type());
  return Tensor(*this, nn::IotaOp::create(builder, loc, type, dim));
}

//===----------------------------------------------------------------------===//
// Movements of elements
//===----------------------------------------------------------------------===//

Tensor Tensor::like(double number) const {
  return *this ? node().constant(type(), number) : Tensor();
}

Tensor Tensor::cast(Type to) const {
  if (!*this || element() == to)
    return *this;
  return node().create<nn::CastOp>(type().clone(to), *this);
}

Tensor Tensor::reshape(ArrayRef<int64_t> to) const {
  if (!*this || shape() == to)
    return *this;
  if (auto previous = getDefiningOp<nn::ReshapeOp>())
    return Tensor(node(), previous.getInput()).reshape(to);
  return node().create<nn::ReshapeOp>(type().clone(to), *this);
}

Tensor Tensor::unsqueeze(int64_t dim) const {
  return *this ? reshape(withDim(shape(), dim, 1)) : *this;
}

Tensor Tensor::squeeze(int64_t dim) const {
  return *this ? reshape(withoutDim(shape(), dim)) : *this;
}

Tensor Tensor::transpose(ArrayRef<int64_t> perm, bool joined) const {
  if (!*this)
    return {};
  Sizes order(perm), to;
  Tensor from = *this;
  if (auto inner = joined ? getDefiningOp<nn::TransposeOp>() : nn::TransposeOp()) {
    for (int64_t &dim : order)
      dim = inner.getPerm()[dim];
    from = Tensor(node(), inner.getInput());
  }
  if (llvm::is_sorted(order))
    return from;
  for (int64_t dim : order)
    to.push_back(from.dim(dim));
  return node().create<nn::TransposeOp>(from.type().clone(to), from, order);
}

Tensor Tensor::broadcast(ArrayRef<int64_t> to) const {
  if (!*this || shape() == to)
    return *this;
  int64_t first = int64_t(to.size()) - rank();
  return node().create<nn::BroadcastOp>(type().clone(to), *this, dimRange(first, to.size()));
}

Tensor Tensor::slice(ArrayRef<int64_t> starts, ArrayRef<int64_t> limits,
                     ArrayRef<int64_t> strides) const {
  if (!*this)
    return {};
  Sizes to;
  for (auto [start, limit, stride] : llvm::zip(starts, limits, strides))
    to.push_back((limit - start + stride - 1) / stride);
  if (shape() == ArrayRef<int64_t>(to))
    return *this;
  return node().create<nn::SliceOp>(type().clone(to), *this, starts, limits, strides);
}

Tensor Tensor::cropped(ArrayRef<int64_t> to) const {
  return slice(Sizes(to.size(), 0), to, Sizes(to.size(), 1));
}

Tensor Tensor::part(int64_t dim, int64_t from, int64_t to, int64_t stride) const {
  if (!*this)
    return {};
  return slice(withSize(Sizes(rank(), 0), dim, from), withSize(shape(), dim, to),
               withSize(Sizes(rank(), 1), dim, stride));
}

Tensor Tensor::padded(ArrayRef<int64_t> low, ArrayRef<int64_t> high, ArrayRef<int64_t> interior,
                      double number) const {
  if (!*this)
    return {};
  Sizes to(shape()), between(interior);
  between.resize(to.size(), 0);
  for (auto [d, size] : llvm::enumerate(to))
    size += low[d] + high[d] + std::max<int64_t>(size - 1, 0) * between[d];
  return node().create<nn::PadOp>(type().clone(to), *this, low, high, between, APFloat(number));
}

Tensor Tensor::padded(ArrayRef<int64_t> to) const {
  if (!*this || shape() == to)
    return *this;
  Sizes high(to);
  for (auto [end, size] : llvm::zip(high, shape()))
    end -= size;
  return padded(Sizes(to.size(), 0), high);
}

Tensor Tensor::reduce(nn::ReduceKind kind, ArrayRef<int64_t> dims, bool keepDims) const {
  if (!*this)
    return {};
  Sizes left, kept;
  for (auto [i, size] : llvm::enumerate(shape())) {
    bool isReduced = llvm::is_contained(dims, int64_t(i));
    kept.push_back(isReduced ? 1 : size);
    if (!isReduced)
      left.push_back(size);
  }
  Tensor result =
      dims.empty() ? *this : node().create<nn::ReduceOp>(type().clone(left), kind, *this, dims);
  return keepDims ? result.reshape(kept) : result;
}

//===----------------------------------------------------------------------===//
// Several tensors
//===----------------------------------------------------------------------===//

LogicalResult onnx::broadcastShape(ArrayRef<Tensor> values, SmallVectorImpl<int64_t> &shape,
                                   int64_t inner) {
  shape.clear();
  for (Tensor value : values) {
    ArrayRef<int64_t> other = value.shape().drop_back(inner);
    if (other.size() > shape.size())
      shape.insert(shape.begin(), other.size() - shape.size(), 1);
    for (size_t i = 0; i < other.size(); ++i) {
      int64_t &size = shape[shape.size() - other.size() + i];
      if (size == 1)
        size = other[i];
      else if (other[i] != 1 && other[i] != size)
        return value.node().error(
            "shapes do not broadcast: sizes " + Twine(size) + " and " + Twine(other[i]) + " meet" +
            broadcastHint(value.node().building.context.options, value.node().building.states,
                          llvm::to_vector_of<Value>(values), size, other[i]));
    }
  }
  return success();
}

LogicalResult onnx::cut(Tensor value, int64_t dim, ArrayRef<int64_t> sizes,
                        SmallVectorImpl<Tensor> &parts) {
  int64_t size = value.dim(dim), at = 0;
  for (int64_t own : sizes) {
    if (own < 0 || own > size - at)
      return value.node().error("parts do not sum to the dimension's size {}", size);
    parts.push_back(value.part(dim, at, at + own));
    at += own;
  }
  return at == size
             ? success()
             : LogicalResult(value.node().error("parts sum to {}, the dimension has {}", at, size));
}

Tensor onnx::joined(ArrayRef<Tensor> parts, int64_t dim) {
  SmallVector<Value> values;
  int64_t size = 0;
  for (Tensor part : parts) {
    if (!part)
      return {};
    if (part.dim(dim) != 0)
      values.push_back(part);
    size += part.dim(dim);
  }
  Node &node = parts.front().node();
  if (values.size() < 2)
    return values.empty() ? parts.front() : Tensor(node, values.front());
  auto type = parts.front().type();
  return node.create<nn::ConcatOp>(type.clone(withSize(type.getShape(), dim, size)), values, dim);
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

LogicalResult onnx::match(Operand &lhs, Operand &rhs) {
  if (lhs.isNull() || rhs.isNull())
    return failure();
  if (lhs.number)
    lhs.value = rhs.value.like(*lhs.number);
  if (rhs.number)
    rhs.value = lhs.value.like(*rhs.number);
  Node &node = lhs.value.node();
  Sizes shape;
  if (failed(broadcastShape({lhs.value, rhs.value}, shape)))
    return failure();
  Type one = lhs.value.element(), other = rhs.value.element();
  if (one != other)
    return node.error("operands have element types {} and {}", one, other);
  lhs.value = lhs.value.broadcast(shape);
  rhs.value = rhs.value.broadcast(shape);
  return success(lhs.value && rhs.value);
}

Tensor onnx::operator+(Operand lhs, Operand rhs) { return binary<nn::AddOp>(lhs, rhs); }
Tensor onnx::operator-(Operand lhs, Operand rhs) { return binary<nn::SubOp>(lhs, rhs); }
Tensor onnx::operator*(Operand lhs, Operand rhs) { return binary<nn::MulOp>(lhs, rhs); }
Tensor onnx::operator/(Operand lhs, Operand rhs) { return binary<nn::DivOp>(lhs, rhs); }
Tensor onnx::operator&(Tensor lhs, Tensor rhs) { return binary<nn::AndOp>(lhs, rhs); }
Tensor onnx::operator|(Tensor lhs, Tensor rhs) { return binary<nn::OrOp>(lhs, rhs); }
Tensor onnx::max(Operand lhs, Operand rhs) { return binary<nn::MaxOp>(lhs, rhs); }
Tensor onnx::min(Operand lhs, Operand rhs) { return binary<nn::MinOp>(lhs, rhs); }
Tensor onnx::operator-(Tensor x) { return unary<nn::NegOp>(x); }
Tensor onnx::abs(Tensor x) { return unary<nn::AbsOp>(x); }
Tensor onnx::cos(Tensor x) { return unary<nn::CosOp>(x); }
Tensor onnx::exp(Tensor x) { return unary<nn::ExpOp>(x); }
Tensor onnx::expm1(Tensor x) { return unary<nn::Expm1Op>(x); }
Tensor onnx::floor(Tensor x) { return unary<nn::FloorOp>(x); }
Tensor onnx::log(Tensor x) { return unary<nn::LogOp>(x); }
Tensor onnx::log1p(Tensor x) { return unary<nn::Log1pOp>(x); }
Tensor onnx::rsqrt(Tensor x) { return unary<nn::RsqrtOp>(x); }
Tensor onnx::sigmoid(Tensor x) { return unary<nn::SigmoidOp>(x); }
Tensor onnx::sin(Tensor x) { return unary<nn::SinOp>(x); }
Tensor onnx::sqrt(Tensor x) { return unary<nn::SqrtOp>(x); }
Tensor onnx::tanh(Tensor x) { return unary<nn::TanhOp>(x); }
Tensor onnx::stopped(Tensor x) { return unary<nn::StopGradientOp>(x); }

Tensor onnx::compare(Operand lhs, Operand rhs, nn::Predicate predicate) {
  if (failed(match(lhs, rhs)))
    return {};
  Node &node = lhs.value.node();
  return node.create<nn::CompareOp>(lhs.value.type().clone(node.builder.getI1Type()), predicate,
                                    lhs.value, rhs.value);
}

Tensor onnx::select(Tensor condition, Operand yes, Operand no) {
  if (!condition || yes.isNull() || no.isNull())
    return {};
  if (yes.number)
    yes.value = no.value.like(*yes.number);
  if (no.number)
    no.value = yes.value.like(*no.number);
  return condition.node().create<nn::SelectOp>(yes.value.getType(), condition, yes.value, no.value);
}

Tensor onnx::isNan(Tensor x) {
  if (!x)
    return {};
  Node &node = x.node();
  return node.create<nn::IsNanOp>(x.type().clone(node.builder.getI1Type()), x);
}

Tensor onnx::matmul(Tensor lhs, Tensor rhs, bool transposeLhs, bool transposeRhs) {
  if (!lhs || !rhs)
    return {};
  Node &node = lhs.node();
  // A matmul with a transposed matrix reads the matrix itself.
  auto peel = [&](Tensor &value, bool &flag) {
    auto transpose = value.getDefiningOp<nn::TransposeOp>();
    if (!transpose || transpose.getPerm() != ArrayRef<int64_t>{1, 0})
      return;
    value = Tensor(node, transpose.getInput());
    flag = !flag;
  };
  peel(lhs, transposeLhs);
  peel(rhs, transposeRhs);
  int64_t m = lhs.dim(transposeLhs ? -1 : -2), k = lhs.dim(transposeLhs ? -2 : -1);
  int64_t n = rhs.dim(transposeRhs ? -2 : -1), k2 = rhs.dim(transposeRhs ? -1 : -2);
  if (k != k2 || lhs.element() != rhs.element() || !lhs.hasFloats())
    return node.error("matrices {} and {} do not multiply", lhs, rhs);
  Sizes shape = joinedSizes({lhs.shape().drop_back(2), {m, n}});
  return node.create<nn::MatmulOp>(lhs.type().clone(shape), lhs, rhs, transposeLhs, transposeRhs);
}
