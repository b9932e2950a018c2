//===- Attention.cpp - Attention and rotary positions in simpler ops ------===//
//
// The general form of attention holds the scores of all heads. Query heads that
// share a key head are rows of one matmul.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Attention.h"
#include "dialects/nn/Decompose/Composer.h"
#include "dialects/nn/LargeLse.h"
#include <cmath>

using namespace mlir;
using namespace shale::nn;
using Values = SmallVector<Value>;

namespace {
struct Heads {
  int64_t batch, heads, groups, rows, keys, depth, width;
  Heads(Value query, Value key, Value value) {
    auto q = Composer::type(query).getShape(), v = Composer::type(value).getShape();
    batch = q[0], heads = q[1], rows = q[2], depth = q[3];
    groups = Composer::type(key).getDimSize(1), keys = v[2], width = v[3];
  }
  int64_t shared() const { return heads / groups * rows; }
};

/// Repeats a mask to [B, H, T, S], the shape of `like`.
Value whole(Composer &b, Value mask, Value like) {
  return b.broadcast(mask, Composer::type(like).getShape(), {0, 1, 2, 3});
}

/// Returns the `hidden` score of keys that are not seen, -inf if it is not given.
template <typename OpT> double hiddenOf(OpT op) {
  return op.getHidden() ? op.getHidden()->convertToDouble()
                        : -std::numeric_limits<double>::infinity();
}

/// Builds the scores scale * q k^T + mask, [B, H, T, S], changed where a key is not seen.
template <typename OpT> Value scores(Composer &b, const Heads &h, OpT op) {
  Value query = op.getQuery(), key = op.getKey(), mask = op.getMask();
  double scale = op.getScale().convertToDouble();
  Value q = b.reshape(query, {h.batch * h.groups, h.shared(), h.depth});
  Value k = b.reshape(key, {h.batch * h.groups, h.keys, h.depth});
  Value s = b.matmul(q, k, false, true);
  s = b.reshape(s, {h.batch, h.heads, h.rows, h.keys});
  s = b.mul(s, b.splat(s, scale));
  if (mask)
    s = b.add(s, whole(b, mask, s));
  if (Value seen = op.getSeen()) {
    Value hidden = b.splat(s, hiddenOf(op));
    s = b.select(whole(b, seen, s), s, op.getAdded() ? b.add(s, hidden) : hidden);
  }
  if (!op.getCausal() && !op.getWindow())
    return s;
  auto places =
      RankedTensorType::get(Composer::type(s).getShape(), IntegerType::get(s.getContext(), 64));
  Value row = b.iota(places, 2), column = b.iota(places, 3);
  Value last = b.add(row, b.splat(places, double(h.keys - h.rows)));
  // Positions before `last`, and of these or of all, those of the window.
  Value shown = op.getCausal() ? b.compare(Predicate::LE, column, last) : Value();
  if (std::optional<int64_t> window = op.getWindow()) {
    auto within = [&](Value from, Value to) { // to - from < window
      Value near = b.compare(Predicate::LT, b.sub(to, from),
                             b.splat(places, double(std::min(*window, h.rows + h.keys))));
      shown = shown ? b.both(shown, near) : near;
    };
    within(column, last);
    if (!op.getCausal())
      within(last, column);
  }
  return b.select(shown, s, b.splat(s, -std::numeric_limits<double>::infinity()));
}

/// Applies dropout to the probabilities, or to their gradient.
template <typename OpT> Value dropped(Composer &b, OpT op, Value p) {
  DropAttr dropout = op.getDropoutAttr();
  if (!dropout)
    return p;
  SmallVector<int64_t> shape(Composer::type(p).getShape()), local = shape;
  DenseI64ArrayAttr whole;
  Value offset;
  if (!dropout.getWhole().empty()) {
    // [B, G, R, T, S], because a rank's heads of several groups may not be contiguous in the whole.
    int64_t groups = Composer::type(op.getKey()).getDimSize(1);
    local = {shape[0], groups, shape[1] / groups, shape[2], shape[3]};
    whole = DenseI64ArrayAttr::get(op.getContext(), dropout.getWhole());
    offset = op.getRandom()[3];
  }
  auto id = IntegerAttr::get(IntegerType::get(op.getContext(), 64), dropout.getId());
  return b.reshape(b.dropout(b.reshape(p, local), op.getRandom()[0], op.getRandom()[1],
                             op.getRandom()[2], offset, dropout.getRatio(), id, whole),
                   shape);
}
} // namespace

Values AttentionOp::decompose(OpBuilder &builder) {
  Composer b(builder, *this);
  Heads h(getQuery(), getKey(), getValue());
  Value s = scores(b, h, *this);
  Value highest = b.reduceRows(ReduceKind::Max, s);
  if (getGuard()) { // a row of -inf: exp of the scores themselves is 0
    Value nothing = b.compare(Predicate::EQ, highest,
                              b.splat(highest, -std::numeric_limits<double>::infinity()));
    highest = b.select(nothing, b.splat(highest, 0), highest);
  }
  Value e = b.exp(b.sub(s, b.alongRows(highest, s)));
  Value total = b.reduceRows(ReduceKind::Sum, e);
  if (getGuard())
    total = b.select(b.compare(Predicate::EQ, total, b.splat(total, 0)), b.splat(total, 1), total);
  Value p = dropped(b, *this, b.div(e, b.alongRows(total, e)));
  Value v = b.reshape(getValue(), {h.batch * h.groups, h.keys, h.width});
  Value o = b.matmul(b.reshape(p, {h.batch * h.groups, h.shared(), h.keys}), v, false, false);
  return {b.reshape(o, Composer::type(getResult()).getShape()), b.add(b.log(total), highest)};
}

Values AttentionGradOp::decompose(OpBuilder &builder) {
  Composer b(builder, *this);
  Heads h(getQuery(), getKey(), getValue());
  int64_t n = h.batch * h.groups;
  double scale = getScale().convertToDouble();
  Value s = scores(b, h, *this);
  Value p = b.exp(b.sub(s, b.alongRows(getLse(), s)));
  if (mayHaveLargeLse(*this)) {
    Value lse = getLse(), total = b.reduceRows(ReduceKind::Sum, p);
    Value high = b.compare(Predicate::LT, b.splat(lse, kLargeLse), lse),
          low = b.compare(Predicate::LT, lse, b.splat(lse, -kLargeLse));
    Value one = b.splat(total, 1);
    p = b.div(p, b.alongRows(b.select(high, total, b.select(low, total, one)), p));
  }
  Value flat = b.reshape(dropped(b, *this, p), {n, h.shared(), h.keys});
  Value dout = b.reshape(getGrad(), {n, h.shared(), h.width});
  Value dv = b.matmul(flat, dout, true, false);
  Value dp = b.matmul(dout, b.reshape(getValue(), {n, h.keys, h.width}), false, true);
  dp = dropped(b, *this, b.reshape(dp, Composer::type(p).getShape()));
  Value delta = b.reduceRows(ReduceKind::Sum, b.mul(getGrad(), getOutput()));
  Value ds = b.mul(p, b.sub(dp, b.alongRows(delta, dp)));
  if (getSeen() && std::isfinite(hiddenOf(*this)) &&
      !getAdded()) // these scores do not depend on q and k
    ds = b.select(whole(b, getSeen(), ds), ds, b.splat(ds, 0));
  ds = b.reshape(b.mul(ds, b.splat(ds, scale)), {n, h.shared(), h.keys});
  Value dq = b.matmul(ds, b.reshape(getKey(), {n, h.keys, h.depth}), false, false);
  Value dk = b.matmul(ds, b.reshape(getQuery(), {n, h.shared(), h.depth}), true, false);
  return {b.reshape(dq, Composer::type(getQuery()).getShape()),
          b.reshape(dk, Composer::type(getKey()).getShape()),
          b.reshape(dv, Composer::type(getValue()).getShape())};
}

Values RopeOp::decompose(OpBuilder &builder) {
  Composer b(builder, *this);
  Value x = getInput();
  SmallVector<int64_t> shape(Composer::type(x).getShape());
  int64_t last = shape.size() - 1, width = shape[last],
          half = Composer::type(getCos()).getDimSize(1);
  auto at = [&](int64_t first) {
    return getInterleaved() ? b.slice(x, last, first, 2 * half, 2)
                            : b.slice(x, last, first * half, (first + 1) * half);
  };
  Value even = at(0), odd = at(1);
  ArrayRef<int64_t> halved = Composer::type(even).getShape();
  Value c = b.broadcast(getCos(), halved, {getPositionDim(), last}),
        s = b.broadcast(getSin(), halved, {getPositionDim(), last});
  if (getInverse())
    s = b.neg(s);
  Value first = b.sub(b.mul(even, c), b.mul(odd, s));
  Value second = b.add(b.mul(odd, c), b.mul(even, s));
  SmallVector<int64_t> rotated = shape;
  rotated[last] = 2 * half;
  Value both;
  if (getInterleaved()) {
    SmallVector<int64_t> pairs(halved);
    pairs.push_back(1);
    SmallVector<int64_t> joined(halved);
    joined.push_back(2);
    both = b.concat({b.reshape(first, pairs), b.reshape(second, pairs)}, joined, last + 1);
    both = b.reshape(both, rotated);
  } else {
    both = b.concat({first, second}, rotated, last);
  }
  if (2 * half == width)
    return {both};
  return {b.concat({both, b.slice(x, last, 2 * half, width)}, shape, last)};
}
