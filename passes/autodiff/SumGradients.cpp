//===- SumGradients.cpp - The sum of two gradients ------------------------===//
#include "passes/autodiff/SumGradients.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"

using namespace mlir;
using namespace shale;

namespace {
/// A value with zeros before and after it along one dimension.
struct Padded {
  Value inner;
  int64_t dim = 0, low = 0, high = 0;

  int64_t end(RankedTensorType whole) const { return whole.getDimSize(dim) - high; }
};
} // namespace

/// Returns the parts of a value that is padded along one dimension with zeros on the outside only.
static std::optional<Padded> matchPadded(Value value) {
  auto pad = value.getDefiningOp<nn::PadOp>();
  if (!pad || !pad.getValue().isZero() || pad.getValue().isNegative() ||
      llvm::any_of(pad.getInterior(), [](int64_t count) { return count != 0; }))
    return std::nullopt;
  std::optional<Padded> found;
  for (auto [dim, low, high] : llvm::enumerate(pad.getLow(), pad.getHigh())) {
    if (low == 0 && high == 0)
      continue;
    if (found)
      return std::nullopt;
    found = Padded{pad.getInput(), static_cast<int64_t>(dim), low, high};
  }
  return found;
}

/// Returns the parts of a concatenation along `dim`, or the value itself.
static void appendParts(Value value, int64_t dim, SmallVectorImpl<Value> &parts) {
  auto concat = value.getDefiningOp<nn::ConcatOp>();
  if (concat && static_cast<int64_t>(concat.getDim()) == dim)
    llvm::append_range(parts, concat.getInputs());
  else
    parts.push_back(value);
}

Value shale::buildGradientSum(OpBuilder &builder, Value first, Value second) {
  auto type = cast<RankedTensorType>(first.getType());
  Location loc = second.getLoc();
  std::optional<Padded> a = matchPadded(first), b = matchPadded(second);
  if (a && b && a->dim == b->dim && b->end(type) == a->low)
    std::swap(a, b);
  if (!a || !b || a->dim != b->dim || a->end(type) != b->low)
    return nn::AddOp::create(builder, loc, type, first, second);
  SmallVector<Value> parts;
  appendParts(a->inner, a->dim, parts);
  appendParts(b->inner, a->dim, parts);
  SmallVector<int64_t> shape(type.getShape()), low(shape.size(), 0), high = low, none = low;
  low[a->dim] = a->low;
  high[a->dim] = b->high;
  shape[a->dim] -= a->low + b->high;
  Value joined = nn::ConcatOp::create(builder, loc, type.clone(shape), parts, a->dim);
  if (joined.getType() == type)
    return joined;
  return nn::PadOp::create(builder, loc, type, joined, low, high, none, APFloat(0.0));
}
