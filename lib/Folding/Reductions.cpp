//===- Reductions.cpp - Reductions and running sums -----------------------===//
//
// Floats are added in double in row-major order, and the sums are rounded.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Folding/Evaluators.h"
#include "lib/Folding/Numbers.h"
#include "lib/Folding/StridedRows.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace shale::folding {

namespace {

using Operands = ArrayRef<TypedBuffer>;
using Result = std::optional<TypedBuffer>;

/// Reduces elements into `sums` with strides that are 0 along reduced dimensions. `Number`: double
/// or int64_t.
template <typename Number, typename Fn>
void reduceInto(const TypedBuffer &elements, ArrayRef<int64_t> strides, const TypedBuffer &sums,
                Number start, Fn combine) {
  const Number *from = reinterpret_cast<const Number *>(elements.data());
  Number *to = reinterpret_cast<Number *>(sums.mutableData());
  std::fill_n(to, sums.size(), start);
  StridedRows<2>(elements.shape(), {elements.strides(), strides})
      .forEach([&](const auto &offsets, const auto &steps, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          Number &sum = to[offsets[1] + i * steps[1]];
          sum = combine(sum, from[offsets[0] + i * steps[0]]);
        }
      });
}

void reduceFloats(nn::ReduceKind kind, const TypedBuffer &elements, ArrayRef<int64_t> strides,
                  const TypedBuffer &sums) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  auto reduce = [&](double start, auto combine) {
    reduceInto<double>(elements, strides, sums, start, combine);
  };
  auto orNan = [](double a, double b, double chosen) {
    return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : chosen;
  };
  switch (kind) {
  case nn::ReduceKind::Sum:
    return reduce(0, [](double a, double b) { return a + b; });
  case nn::ReduceKind::Prod:
    return reduce(1, [](double a, double b) { return a * b; });
  case nn::ReduceKind::Max:
    return reduce(-kInfinity, [=](double a, double b) { return orNan(a, b, a < b ? b : a); });
  case nn::ReduceKind::Min:
    return reduce(kInfinity, [=](double a, double b) { return orNan(a, b, b < a ? b : a); });
  }
}

void reduceIntegers(nn::ReduceKind kind, const TypedBuffer &elements, ArrayRef<int64_t> strides,
                    const TypedBuffer &sums) {
  using Limits = std::numeric_limits<int64_t>;
  auto reduce = [&](int64_t start, auto combine) {
    reduceInto<int64_t>(elements, strides, sums, start, combine);
  };
  switch (kind) { // sums and products are modulo 2^64
  case nn::ReduceKind::Sum:
    return reduce(0, [](uint64_t a, uint64_t b) { return int64_t(a + b); });
  case nn::ReduceKind::Prod:
    return reduce(1, [](uint64_t a, uint64_t b) { return int64_t(a * b); });
  case nn::ReduceKind::Max:
    return reduce(Limits::min(), [](int64_t a, int64_t b) { return a < b ? b : a; });
  case nn::ReduceKind::Min:
    return reduce(Limits::max(), [](int64_t a, int64_t b) { return b < a ? b : a; });
  }
}

/// The type in which elements are computed.
ElementKind wideOf(ElementKind kind) { return isFloat(kind) ? ElementKind::F64 : ElementKind::I64; }

Result foldReduce(nn::ReduceOp op, Operands operands) {
  RankedTensorType type = resultType(op);
  ElementKind wide = wideOf(operands[0].kind());
  Result elements = converted(operands[0], wide);
  Result sums = TypedBuffer::allocate(wide, type.getShape());
  if (!elements || !sums)
    return std::nullopt;
  SmallVector<int64_t> strides;
  for (int64_t d = 0, kept = 0; d < elements->rank(); ++d)
    strides.push_back(llvm::is_contained(op.getDims(), d) ? 0 : sums->strides()[kept++]);
  if (isFloat(wide))
    reduceFloats(op.getKind(), *elements, strides, *sums);
  else
    reduceIntegers(op.getKind(), *elements, strides, *sums);
  return converted(*sums, *kindOf(type.getElementType()));
}

/// Computes running sums along the middle dimension of [outer, size, inner]. `Number`: double or
/// uint64_t.
template <typename Number>
void runningSums(const char *from, char *to, ArrayRef<int64_t> shape, int64_t dim, bool isExclusive,
                 bool isReverse) {
  auto *elements = reinterpret_cast<const Number *>(from);
  auto *sums = reinterpret_cast<Number *>(to);
  int64_t outer = 1, size = shape[dim], inner = 1;
  for (int64_t each : shape.take_front(dim))
    outer *= each;
  for (int64_t each : shape.drop_front(dim + 1))
    inner *= each;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      Number sum = 0;
      for (int64_t k = 0; k < size; ++k) {
        int64_t at = (o * size + (isReverse ? size - 1 - k : k)) * inner + i;
        Number before = sum;
        sum += elements[at];
        sums[at] = isExclusive ? before : sum;
      }
    }
}

Result foldCumsum(nn::CumsumOp op, Operands operands) {
  ElementKind wide = wideOf(operands[0].kind());
  Result elements = converted(operands[0], wide);
  Result sums = TypedBuffer::allocate(wide, operands[0].shape());
  if (!elements || !sums)
    return std::nullopt;
  auto *run = isFloat(wide) ? runningSums<double> : runningSums<uint64_t>;
  if (sums->size() > 0)
    run(elements->data(), sums->mutableData(), sums->shape(), op.getDim(), op.getExclusive(),
        op.getReverse());
  return converted(*sums, operands[0].kind());
}

} // namespace

void addReductions(Evaluators &evaluators) {
  evaluators.add<nn::ReduceOp>(foldReduce);
  evaluators.add<nn::CumsumOp>(foldCumsum);
}

} // namespace shale::folding
