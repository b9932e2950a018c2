//===- ExpressionBuild.cpp - Builds functions of parameters ---------------===//
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Norm.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Frontend/ONNX/Record/Expression.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Most elements of an expanded parameter. Exporters fold some thousands.
static constexpr int64_t kMaxElements = int64_t(1) << 24;

namespace {

class ExpressionBuilder {
public:
  ExpressionBuilder(OpBuilder &builder, Location loc, ArrayRef<Value> inputs)
      : builder(builder), loc(loc), inputs(inputs) {}

  Value build(const Expression &expression);
  template <typename OpT, typename... Args> Value create(RankedTensorType type, Args &&...args) {
    return OpT::create(builder, loc, type, std::forward<Args>(args)...)->getResult(0);
  }
  static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
  Value splat(Value like, double number) { return nn::splat(builder, loc, typeOf(like), number); }
  template <typename OpT> Value binary(Value lhs, Value rhs) {
    return create<OpT>(typeOf(lhs), lhs, rhs);
  }

private:
  Value reshape(Value value, ArrayRef<int64_t> shape);
  Value broadcast(Value value, ArrayRef<int64_t> shape);
  Value move(Value value, const Movement &movement);
  Value index(Value value, ArrayRef<IndexItem> items);
  Value view(const Expression &expression, Value value);
  Value permuted(Value value, ArrayRef<int64_t> perm);
  Value reduced(const Expression &expression, Value value);
  Value softmax(Value value, double dim);
  Value clamp(Value value, double bound, nn::Predicate beyond);
  Value combined(StringRef op, Value lhs, Value rhs);
  bool dimension(double number, int64_t rank, int64_t &dim);

  OpBuilder &builder;
  Location loc;
  ArrayRef<Value> inputs;
};

using Unary = Value (*)(ExpressionBuilder &, Value);

} // namespace

template <typename OpT> static Value unary(ExpressionBuilder &b, Value x) {
  return b.create<OpT>(b.typeOf(x), x);
}

/// log(1 + exp(-|x|)): nothing overflows.
static Value logOnePlusExp(ExpressionBuilder &b, Value x) {
  Value small = unary<nn::ExpOp>(b, unary<nn::NegOp>(b, unary<nn::AbsOp>(b, x)));
  return unary<nn::Log1pOp>(b, small);
}

static const llvm::StringMap<Unary> &unaryFunctions() {
  static const llvm::StringMap<Unary> functions = {
      {"exp", unary<nn::ExpOp>},
      {"log", unary<nn::LogOp>},
      {"sigmoid", unary<nn::SigmoidOp>},
      {"tanh", unary<nn::TanhOp>},
      {"neg", unary<nn::NegOp>},
      {"abs", unary<nn::AbsOp>},
      {"sqrt", unary<nn::SqrtOp>},
      {"rsqrt", unary<nn::RsqrtOp>},
      {"stop_gradient", unary<nn::StopGradientOp>},
      {"sin", unary<nn::SinOp>},
      {"cos", unary<nn::CosOp>},
      {"silu", unary<nn::SiluOp>},
      {"reciprocal",
       [](ExpressionBuilder &b, Value x) { return b.binary<nn::DivOp>(b.splat(x, 1), x); }},
      {"square", [](ExpressionBuilder &b, Value x) { return b.binary<nn::MulOp>(x, x); }},
      {"softplus",
       [](ExpressionBuilder &b, Value x) {
         Value rest = logOnePlusExp(b, x);
         return b.binary<nn::AddOp>(b.binary<nn::MaxOp>(x, b.splat(x, 0)), rest);
       }},
      {"log_sigmoid",
       [](ExpressionBuilder &b, Value x) {
         Value rest = logOnePlusExp(b, x);
         return b.binary<nn::SubOp>(b.binary<nn::MinOp>(x, b.splat(x, 0)), rest);
       }},
      {"convert", [](ExpressionBuilder &, Value x) { return x; }}};
  return functions;
}

bool onnx::isUnary(StringRef op) { return unaryFunctions().contains(op); }

static SmallVector<int64_t> identity(int64_t rank) {
  return llvm::to_vector(llvm::seq<int64_t>(0, rank));
}

bool ExpressionBuilder::dimension(double number, int64_t rank, int64_t &dim) {
  dim = int64_t(number);
  dim += dim < 0 ? rank : 0;
  return dim >= 0 && dim < rank;
}

Value ExpressionBuilder::reshape(Value value, ArrayRef<int64_t> shape) {
  auto type = typeOf(value);
  if (type.getShape() == shape)
    return value;
  auto wanted = type.clone(shape);
  if (wanted.getNumElements() != type.getNumElements())
    return {};
  return create<nn::ReshapeOp>(wanted, value);
}

Value ExpressionBuilder::broadcast(Value value, ArrayRef<int64_t> shape) {
  auto type = typeOf(value);
  if (type.getShape() == shape)
    return value;
  SmallVector<int64_t> dims;
  for (int64_t i = 0; i < type.getRank(); ++i)
    dims.push_back(int64_t(shape.size()) - type.getRank() + i);
  return create<nn::BroadcastOp>(type.clone(shape), value, dims);
}

Value ExpressionBuilder::permuted(Value value, ArrayRef<int64_t> perm) {
  if (llvm::is_sorted(perm))
    return value;
  SmallVector<int64_t> shape;
  for (int64_t dim : perm)
    shape.push_back(typeOf(value).getDimSize(dim));
  return create<nn::TransposeOp>(typeOf(value).clone(shape), value, perm);
}

Value ExpressionBuilder::move(Value value, const Movement &movement) {
  value = reshape(value, movement.split);
  if (!value)
    return {};
  SmallVector<int64_t> sizes;
  for (auto [start, limit, stride] : llvm::zip(movement.starts, movement.limits, movement.strides))
    sizes.push_back((limit - start + stride - 1) / stride);
  if (sizes != movement.split)
    value = create<nn::SliceOp>(typeOf(value).clone(sizes), value, movement.starts, movement.limits,
                                movement.strides);
  value = reshape(permuted(value, movement.perm), movement.kept);
  return value ? broadcast(value, movement.shape) : Value();
}

Value ExpressionBuilder::index(Value value, ArrayRef<IndexItem> items) {
  using Kind = IndexItem::Kind;
  ArrayRef<int64_t> shape = typeOf(value).getShape();
  int64_t rank = shape.size(), taken = llvm::count_if(items, [](const IndexItem &item) {
                                 return item.kind == Kind::At || item.kind == Kind::Range;
                               });
  if (taken > rank ||
      llvm::count_if(items, [](const IndexItem &item) { return item.kind == Kind::Rest; }) > 1)
    return {};
  SmallVector<int64_t> starts, limits, strides, sliced, kept;
  auto takeAll = [&](int64_t count) {
    for (; count > 0; --count) {
      int64_t size = shape[starts.size()];
      starts.push_back(0), limits.push_back(size), strides.push_back(1);
      sliced.push_back(size), kept.push_back(size);
    }
  };
  for (const IndexItem &item : items) {
    if (item.kind == Kind::New) {
      kept.push_back(1);
      continue;
    }
    if (item.kind == Kind::Rest) {
      takeAll(rank - taken);
      continue;
    }
    int64_t size = shape[starts.size()];
    auto clipped = [&](std::optional<int64_t> place, int64_t missing) {
      int64_t at = place.value_or(missing);
      return std::clamp<int64_t>(at + (at < 0 ? size : 0), 0, size);
    };
    bool isOne = item.kind == Kind::At;
    int64_t step = isOne ? 1 : item.step.value_or(1);
    int64_t start = isOne ? *item.start + (*item.start < 0 ? size : 0) : clipped(item.start, 0);
    int64_t limit = isOne ? start + 1 : clipped(item.end, size);
    if (step < 1 || start < 0 || limit > size || limit <= start)
      return {};
    starts.push_back(start), limits.push_back(limit), strides.push_back(step);
    sliced.push_back((limit - start + step - 1) / step);
    if (!isOne)
      kept.push_back(sliced.back());
  }
  takeAll(rank - int64_t(starts.size()));
  if (ArrayRef<int64_t>(sliced) != shape)
    value = create<nn::SliceOp>(typeOf(value).clone(sliced), value, starts, limits, strides);
  return reshape(value, kept);
}

/// Builds a movement that PyTorch gives by dimensions or sizes.
Value ExpressionBuilder::view(const Expression &expression, Value value) {
  auto type = typeOf(value);
  int64_t rank = type.getRank();
  SmallVector<int64_t> numbers(expression.numbers.begin(), expression.numbers.end());
  SmallVector<int64_t> shape(type.getShape()), perm = identity(rank);
  int64_t a = 0, b = 0;
  StringRef op = expression.op;
  if (op == "unsqueeze") {
    if (!dimension(numbers[0], rank + 1, a))
      return {};
    shape.insert(shape.begin() + a, 1);
    return reshape(value, shape);
  }
  if (op == "squeeze") {
    if (numbers.empty())
      llvm::erase(shape, 1);
    else if (!dimension(numbers[0], rank, a))
      return {};
    else if (shape[a] == 1)
      shape.erase(shape.begin() + a);
    return reshape(value, shape);
  }
  if (op == "transpose") {
    if (!dimension(numbers[0], rank, a) || !dimension(numbers[1], rank, b))
      return {};
    std::swap(perm[a], perm[b]);
    return permuted(value, perm);
  }
  if (op == "permute") {
    if (int64_t(numbers.size()) != rank)
      return {};
    for (auto [i, number] : llvm::enumerate(numbers))
      if (!dimension(number, rank, perm[i]))
        return {};
    SmallVector<int64_t> sorted(perm);
    llvm::sort(sorted);
    return sorted == identity(rank) ? permuted(value, perm) : Value();
  }
  if (op == "reshape") {
    int64_t known = 1, count = type.getNumElements();
    for (int64_t size : numbers)
      if (size < -1 || size > count || (size > 0 && known > count))
        return {};
      else
        known *= size > 0 ? size : 1;
    for (int64_t &size : numbers)
      if (size == -1)
        size = known && count % known == 0 ? count / known : 0;
    return reshape(value, numbers);
  }
  // expand
  int64_t count = 1;
  if (int64_t(numbers.size()) < rank)
    return {};
  for (int64_t i = 0; i < int64_t(numbers.size()); ++i) {
    int64_t dim = i - (int64_t(numbers.size()) - rank), own = dim < 0 ? 1 : shape[dim];
    if (numbers[i] == -1 && dim >= 0)
      numbers[i] = own;
    if (numbers[i] < 1 || numbers[i] > kMaxElements / count || (own != 1 && numbers[i] != own))
      return {};
    count *= numbers[i];
  }
  return broadcast(value, numbers);
}

Value ExpressionBuilder::reduced(const Expression &expression, Value value) {
  auto type = typeOf(value);
  SmallVector<int64_t> dims, kept, shape;
  for (double number : expression.numbers)
    if (dims.emplace_back(); !dimension(number, type.getRank(), dims.back()))
      return {};
  if (dims.empty())
    dims = identity(type.getRank());
  llvm::sort(dims);
  if (std::adjacent_find(dims.begin(), dims.end()) != dims.end())
    return {};
  double count = 1;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    bool isReduced = llvm::is_contained(dims, dim);
    count *= isReduced ? type.getDimSize(dim) : 1;
    if (!isReduced)
      shape.push_back(type.getDimSize(dim));
    if (!isReduced || expression.keeps)
      kept.push_back(isReduced ? 1 : type.getDimSize(dim));
  }
  if (!dims.empty())
    value = create<nn::ReduceOp>(type.clone(shape), nn::ReduceKind::Sum, value, dims);
  if (expression.op == "mean")
    value = binary<nn::DivOp>(value, splat(value, count));
  return reshape(value, kept);
}

Value ExpressionBuilder::softmax(Value value, double number) {
  int64_t rank = typeOf(value).getRank(), dim;
  if (!dimension(number, rank, dim))
    return {};
  SmallVector<int64_t> perm = identity(rank); // a swap is its own inverse
  std::swap(perm[dim], perm[rank - 1]);
  value = permuted(value, perm);
  return permuted(create<nn::SoftmaxOp>(typeOf(value), value), perm);
}

/// Replaces elements beyond a bound by it. Elements at the bound get no gradient, as in PyTorch.
Value ExpressionBuilder::clamp(Value value, double bound, nn::Predicate beyond) {
  if (!std::isfinite(bound))
    return value;
  Value limit = splat(value, bound);
  Value isBeyond =
      create<nn::CompareOp>(typeOf(value).clone(builder.getI1Type()), beyond, value, limit);
  return create<nn::SelectOp>(typeOf(value), isBeyond, limit, value);
}

Value ExpressionBuilder::combined(StringRef op, Value lhs, Value rhs) {
  ArrayRef<int64_t> left = typeOf(lhs).getShape(), right = typeOf(rhs).getShape();
  if (op == "matmul") {
    if (left.size() != 2 || right.size() != 2 || left[1] != right[0])
      return {};
    return create<nn::MatmulOp>(typeOf(lhs).clone({left[0], right[1]}), lhs, rhs);
  }
  SmallVector<int64_t> shape(std::max(left.size(), right.size()), 1);
  for (ArrayRef<int64_t> one : {left, right})
    for (auto [size, other] : llvm::zip(llvm::drop_begin(shape, shape.size() - one.size()), one))
      if (size == 1)
        size = other;
      else if (other != 1 && other != size)
        return {};
  lhs = broadcast(lhs, shape), rhs = broadcast(rhs, shape);
  if (op == "add")
    return binary<nn::AddOp>(lhs, rhs);
  if (op == "sub")
    return binary<nn::SubOp>(lhs, rhs);
  return op == "mul" ? binary<nn::MulOp>(lhs, rhs) : binary<nn::DivOp>(lhs, rhs);
}

Value ExpressionBuilder::build(const Expression &expression) {
  StringRef op = expression.op;
  if (op == "input")
    return inputs[expression.input];
  ArrayRef<Expression> operands = expression.operands;
  if (operands.size() == 2) {
    bool leftNumber = operands[0].isNumber(), rightNumber = operands[1].isNumber();
    Value lhs = leftNumber ? Value() : build(operands[0]);
    Value rhs = rightNumber ? Value() : build(operands[1]);
    if ((!lhs && !leftNumber) || (!rhs && !rightNumber) || (!lhs && !rhs))
      return {};
    if (op == "pow")
      return rightNumber ? binary<nn::PowOp>(lhs, splat(lhs, operands[1].numbers[0])) : Value();
    if (leftNumber)
      lhs = splat(rhs, operands[0].numbers[0]);
    if (rightNumber)
      rhs = splat(lhs, operands[1].numbers[0]);
    return combined(op, lhs, rhs);
  }
  Value value = operands.size() == 1 ? build(operands[0]) : Value();
  if (!value)
    return {};
  if (auto function = unaryFunctions().lookup(op))
    return function(*this, value);
  if (op == "clamp") {
    value = clamp(value, expression.numbers[0], nn::Predicate::LE);
    return clamp(value, expression.numbers[1], nn::Predicate::GE);
  }
  if (op == "softmax")
    return softmax(value, expression.numbers[0]);
  if (op == "sum" || op == "mean")
    return reduced(expression, value);
  if (op == "move")
    return move(value, expression.movement);
  return op == "index" ? index(value, expression.items) : view(expression, value);
}

Value onnx::buildExpression(OpBuilder &builder, Location loc, const Expression &expression,
                            ArrayRef<Value> inputs, RankedTensorType type) {
  Type element = getElementTypeOrSelf(inputs.front());
  // A conversion may be among what was folded: it is done at the end if all inputs are of one type.
  if (llvm::any_of(inputs, [&](Value input) { return getElementTypeOrSelf(input) != element; }))
    element = type.getElementType();
  auto convert = [&](Value value, Type to) -> Value {
    auto own = cast<RankedTensorType>(value.getType());
    return own.getElementType() == to ? value
                                      : nn::CastOp::create(builder, loc, own.clone(to), value);
  };
  SmallVector<Value> converted;
  for (Value input : inputs)
    converted.push_back(convert(input, element));
  Value result = ExpressionBuilder(builder, loc, converted).build(expression);
  if (!result || !type)
    return result;
  auto own = cast<RankedTensorType>(result.getType());
  if (own.getNumElements() != type.getNumElements())
    return {};
  if (own.getShape() != type.getShape())
    result = nn::ReshapeOp::create(builder, loc, own.clone(type.getShape()), result);
  return convert(result, type.getElementType());
}

Value onnx::transposed(OpBuilder &builder, Location loc, Value matrix) {
  auto type = cast<RankedTensorType>(matrix.getType());
  auto turned = type.clone({type.getDimSize(1), type.getDimSize(0)});
  return nn::TransposeOp::create(builder, loc, turned, matrix, ArrayRef<int64_t>{1, 0});
}
