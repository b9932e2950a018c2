//===- Attention.cpp - Blocked attention, forward and backward ------------===//
//
// A block of query rows of one head against all keys that it sees: the scores
// of one block are all that is ever held. Backward recomputes them from lse
// (Dao et al., arXiv 2205.14135, section 3) and runs one key head a row, so that
// sums over the queries of its heads have one order.
//
// Half types are widened in scratch: keys and values once a head, queries and
// results a block at a time; sums are f32 and rounded once.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Emit/Random.h"
#include "dialects/nn/Kernels/Loops.h"
#include "dialects/nn/NN.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace shale::nn;

namespace {

/// Sizes of one attention, as in the op's text.
struct Shape {
  int64_t batch, heads, groups, rows, keys, depth, width;
  Shape(Value query, Value key, Value value) {
    auto q = cast<RankedTensorType>(query.getType()).getShape();
    auto v = cast<RankedTensorType>(value.getType()).getShape();
    element = cast<RankedTensorType>(query.getType()).getElementType();
    batch = q[0], heads = q[1], rows = q[2], depth = q[3], groups = v[1], keys = v[2], width = v[3];
  }
  /// Query rows of a block: its scores stay within 256 KiB while 8 rows do.
  int64_t blockRows() const {
    constexpr int64_t elements = 65536;
    return std::min(rows, std::clamp<int64_t>(elements / std::max<int64_t>(keys, 1), 8, 64));
  }
  int64_t blocks() const { return (rows + blockRows() - 1) / blockRows(); }
  /// Elements of a block of scores.
  int64_t scores() const { return blockRows() * keys; }
  bool halves() const { return element.isBF16() || element.isF16(); }
  Type element;
};

/// Bytes of scratch for areas of so many f32 elements (Loops::scratch).
int64_t scratchOf(ArrayRef<int64_t> areas) {
  int64_t bytes = 0;
  for (int64_t elements : areas)
    bytes += llvm::alignTo(elements * sizeof(float), 64);
  return bytes;
}

/// What both directions share: a block of scores and its rows.
class Blocks {
public:
  Blocks(Loops &l, const Shape &s, Value mask, RankedTensorType maskType, bool causal, double scale)
      : l(l), s(s), mask(mask), causal(causal), scale(scale) {
    if (!mask)
      return;
    maskElement = maskType.getElementType();
    int64_t stride = 1;
    maskStrides.assign(4, 0);
    for (int i = 3; i >= 0; --i) {
      maskStrides[i] = maskType.getDimSize(i) == 1 ? 0 : stride;
      stride *= maskType.getDimSize(i);
    }
  }

  Value i(int64_t value) { return l.index(value); }

  /// Keys that row `row` sees.
  Value visible(Value row) {
    if (!causal)
      return i(s.keys);
    return l.max(i(0), l.min(i(s.keys), l.add(row, i(1 + s.keys - s.rows))));
  }

  /// scores[rows, limit] = scale * q k^T
  void multiply(Value count, Value limit, Value q, Value qAt, Value k, Value kAt, Value scores) {
    l.gemm(false, true, count, limit, i(s.depth), scale, {q, qAt, i(s.depth)}, {k, kAt, i(s.depth)}, 0,
           {scores, i(0), i(s.keys)});
  }

  /// Adds the mask to columns [0, limit) of a row of scores.
  void addMask(Value batch, Value head, Value row, Value scores, Value at, Value limit) {
    if (!mask)
      return;
    Value base = l.add(l.mul(batch, i(maskStrides[0])),
                       l.add(l.mul(head, i(maskStrides[1])), l.mul(row, i(maskStrides[2]))));
    l.vectors(i(0), limit, {}, [&](Value j, Value lanes, ValueRange) -> SmallVector<Value> {
      Value x = l.load(scores, l.add(at, j), lanes);
      Value y = maskStrides[3] ? l.load(mask, l.add(base, j), lanes, maskElement)
                               : l.splat(l.loadScalar(mask, base, maskElement));
      l.store(scores, l.add(at, j), lanes, arith::AddFOp::create(l.b, l.loc, x, y));
      return {};
    });
  }

  void zero(Value memref, Value from, Value to) {
    Value nothing = l.splat(l.real(0));
    l.vectors(from, to, {}, [&](Value j, Value lanes, ValueRange) -> SmallVector<Value> {
      l.store(memref, j, lanes, nothing);
      return {};
    });
  }

  /// f32 elements of a half area in scratch, or the area itself and its place.
  std::pair<Value, Value> widened(Value area, Value at, Value scratch, Value count) {
    if (!scratch)
      return {area, at};
    widen(area, at, scratch, count);
    return {scratch, i(0)};
  }

  void widen(Value half, Value at, Value scratch, Value count) {
    l.vectors(i(0), count, {}, [&](Value j, Value lanes, ValueRange) -> SmallVector<Value> {
      l.store(scratch, j, lanes, l.load(half, l.add(at, j), lanes, s.element));
      return {};
    });
  }

  void narrow(Value scratch, Value half, Value at, Value count) {
    l.vectors(i(0), count, {}, [&](Value j, Value lanes, ValueRange) -> SmallVector<Value> {
      l.store(half, l.add(at, j), lanes, l.load(scratch, j, lanes), s.element);
      return {};
    });
  }

  Loops &l;
  const Shape &s;
  Value mask;
  Type maskElement;
  bool causal;
  double scale;
  SmallVector<int64_t> maskStrides;
};

/// Which probabilities are dropped (nn.dropout), a vector of a row at a time.
class Drops {
public:
  /// `random` is what they are drawn from, in memory.
  Drops(Loops &l, const Shape &s, DropAttr dropout, ValueRange random) : l(l), s(s), words{l.b, l.loc}, dropout(dropout) {
    if (!dropout)
      return;
    auto scalar = [&](unsigned i) { return memref::LoadOp::create(l.b, l.loc, random[i], ValueRange{l.index(0)}); };
    std::tie(key0, key1) = words.split(scalar(0));
    step = words.split(scalar(1)).first;
    microbatch = arith::ShLIOp::create(l.b, l.loc, words.split(scalar(2)).first, words.constant(16));
    groups = s.groups, shared = s.heads / s.groups;
    if (dropout.getWhole().empty())
      return;
    groups = dropout.getWhole()[1], shared = dropout.getWhole()[2];
    offset = arith::IndexCastOp::create(l.b, l.loc, l.b.getIndexType(), scalar(3));
  }

  explicit operator bool() const { return bool(dropout); }

  /// The number of a row's first probability in the whole.
  Value rowStart(Value batch, Value head, Value row) {
    if (!dropout)
      return {};
    Value here = l.index(s.heads / s.groups);
    Value group = l.add(l.mul(batch, l.index(groups)), l.div(head, here));
    Value number = l.add(l.mul(group, l.index(shared)), l.rem(head, here));
    number = l.mul(l.add(l.mul(number, l.index(s.rows)), row), l.index(s.keys));
    return offset ? l.add(number, offset) : number;
  }

  /// What becomes of the vector at column `j` of that row.
  Value isKept(Value start, Value j) {
    Type i64 = l.b.getI64Type();
    Value first = arith::IndexCastOp::create(l.b, l.loc, i64, l.add(start, j));
    SmallVector<int64_t> steps(l.lanes);
    std::iota(steps.begin(), steps.end(), 0);
    auto type = VectorType::get({l.lanes}, i64);
    Value lanes = arith::ConstantOp::create(l.b, l.loc, DenseElementsAttr::get(type, ArrayRef<int64_t>(steps)));
    auto [low, high] = words.split(arith::AddIOp::create(l.b, l.loc, l.splat(first), lanes));
    Value id = words.constant(static_cast<uint32_t>(dropout.getId()));
    Value word = words.philox({low, words.sum(high, microbatch), step, id}, key0, key1);
    Value threshold = words.constant(dropThreshold(dropout.getRatio().getValueAsDouble()));
    words.match(word, threshold);
    return arith::CmpIOp::create(l.b, l.loc, arith::CmpIPredicate::uge, word, threshold);
  }
  Value apply(Value kept, Value x) {
    Value factor = l.splat(l.real(1 / (1 - dropout.getRatio().getValueAsDouble())));
    return arith::SelectOp::create(l.b, l.loc, kept, arith::MulFOp::create(l.b, l.loc, x, factor), l.splat(l.real(0)));
  }

private:
  Loops &l;
  const Shape &s;
  RandomWords words;
  DropAttr dropout;
  Value key0, key1, step, microbatch, offset;
  int64_t groups = 1, shared = 1;
};

LogicalResult checkElement(Operation *op, Value lse) {
  for (Value operand : op->getOperands()) {
    if (cast<RankedTensorType>(operand.getType()).getElementType().isInteger())
      continue; // what is drawn from
    Type element = cast<RankedTensorType>(operand.getType()).getElementType();
    if (!element.isF32() && !shale::isHalf(element))
      return op->emitOpError() << "has a kernel for f32 and half types only; got " << operand.getType();
  }
  if (!cast<RankedTensorType>(lse.getType()).getElementType().isF32())
    return op->emitOpError() << "has a kernel for lse in f32 only; got " << lse.getType();
  return success();
}

} // namespace

int64_t AttentionOp::getKernelRows() {
  Shape s(getQuery(), getKey(), getValue());
  return s.batch * s.heads * s.blocks();
}
int64_t AttentionOp::getKernelGrain() { return 1; }
int64_t AttentionOp::getKernelScratch() {
  Shape s(getQuery(), getKey(), getValue());
  if (!s.halves())
    return scratchOf({s.scores()});
  return scratchOf({s.scores(), s.keys * s.depth, s.keys * s.width, s.blockRows() * s.depth, s.blockRows() * s.width});
}

LogicalResult AttentionOp::emitKernel(OpBuilder &b, ValueRange operands, ValueRange results, Value begin, Value end,
                                      int64_t lanes) {
  if (failed(checkElement(*this, getLse())))
    return failure();
  Location loc = getLoc();
  Loops l(b, loc, lanes);
  Shape s(getQuery(), getKey(), getValue());
  Value q = operands[0], k = operands[1], v = operands[2], mask = getMask() ? operands[3] : Value();
  Value out = results[0], lse = results[1];
  Blocks blocks(l, s, mask, mask ? cast<RankedTensorType>(getMask().getType()) : RankedTensorType(), getCausal(),
                getScale().convertToDouble());
  Drops drops(l, s, getDropoutAttr(), operands.take_back(getRandom().size()));
  auto i = [&](int64_t value) { return l.index(value); };
  Block *entry = b.getInsertionBlock();
  Value scores = l.scratch(entry, s.scores());
  Value wideK, wideV, wideQ, wideOut;
  if (s.halves()) {
    wideK = l.scratch(entry, s.keys * s.depth), wideV = l.scratch(entry, s.keys * s.width);
    wideQ = l.scratch(entry, s.blockRows() * s.depth), wideOut = l.scratch(entry, s.blockRows() * s.width);
  }

  l.forRange(begin, end, [&](Value item) {
    Value block = l.rem(item, i(s.blocks())), pair = l.div(item, i(s.blocks()));
    Value head = l.rem(pair, i(s.heads)), batch = l.div(pair, i(s.heads));
    Value group = l.add(l.mul(batch, i(s.groups)), l.div(head, i(s.heads / s.groups)));
    Value first = l.mul(block, i(s.blockRows()));
    Value count = l.min(i(s.blockRows()), l.sub(i(s.rows), first));
    Value limit = blocks.visible(l.sub(l.add(first, count), i(1)));
    Value row0 = l.add(l.mul(pair, i(s.rows)), first);
    Value kAt = l.mul(group, i(s.keys * s.depth)), vAt = l.mul(group, i(s.keys * s.width));
    Value keys = k, values = v;
    if (s.halves()) {
      // Items of a head follow each other.
      Value starts = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, item, begin);
      Value another = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, block, i(0));
      auto fresh = scf::IfOp::create(b, loc, arith::OrIOp::create(b, loc, starts, another));
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(fresh.thenBlock()->getTerminator());
      blocks.widen(k, kAt, wideK, i(s.keys * s.depth));
      blocks.widen(v, vAt, wideV, i(s.keys * s.width));
      keys = wideK, values = wideV;
    }
    if (s.halves())
      kAt = vAt = i(0);
    auto [queries, qAt] = blocks.widened(q, l.mul(row0, i(s.depth)), wideQ, l.mul(count, i(s.depth)));
    blocks.multiply(count, limit, queries, qAt, keys, kAt, scores);

    l.forRange(i(0), count, [&](Value r) {
      Value at = l.mul(r, i(s.keys)), row = l.add(first, r), seen = blocks.visible(row);
      blocks.addMask(batch, head, row, scores, at, seen);
      Value low = l.splat(l.real(-std::numeric_limits<double>::infinity()));
      Value highest = l.vectors(i(0), seen, low, [&](Value j, Value m, ValueRange c) -> SmallVector<Value> {
        Value x = l.load(scores, l.add(at, j), m);
        return {l.keep(m, arith::MaximumFOp::create(b, loc, c[0], x), c[0])};
      })[0];
      highest = l.maxLanes(highest);
      Value shift = l.splat(highest), none = l.splat(l.real(0));
      Value total = l.vectors(i(0), seen, none, [&](Value j, Value m, ValueRange c) -> SmallVector<Value> {
        Value x = l.load(scores, l.add(at, j), m);
        Value e = math::ExpOp::create(b, loc, arith::SubFOp::create(b, loc, x, shift));
        l.store(scores, l.add(at, j), m, e);
        return {l.keep(m, arith::AddFOp::create(b, loc, c[0], e), c[0])};
      })[0];
      total = l.sumLanes(total);
      blocks.zero(scores, l.add(at, seen), l.add(at, limit));
      Value sum = arith::AddFOp::create(b, loc, math::LogOp::create(b, loc, total), highest);
      memref::StoreOp::create(b, loc, sum, lse, l.add(row0, r));
      Value divisor = l.splat(total), start = drops.rowStart(batch, head, row);
      l.vectors(i(0), seen, {}, [&](Value j, Value m, ValueRange) -> SmallVector<Value> {
        Value x = arith::DivFOp::create(b, loc, l.load(scores, l.add(at, j), m), divisor);
        l.store(scores, l.add(at, j), m, drops ? drops.apply(drops.isKept(start, j), x) : x);
        return {};
      });
    });
    Value to = l.mul(row0, i(s.width));
    l.gemm(false, false, count, i(s.width), limit, 1, {scores, i(0), i(s.keys)}, {values, vAt, i(s.width)}, 0,
           {wideOut ? wideOut : out, wideOut ? i(0) : to, i(s.width)});
    if (wideOut)
      blocks.narrow(wideOut, out, to, l.mul(count, i(s.width)));
  });
  return success();
}

int64_t AttentionGradOp::getKernelRows() {
  Shape s(getQuery(), getKey(), getValue());
  return s.batch * s.groups;
}
int64_t AttentionGradOp::getKernelGrain() { return 1; }
int64_t AttentionGradOp::getKernelScratch() {
  Shape s(getQuery(), getKey(), getValue());
  if (!s.halves())
    return scratchOf({s.scores(), s.scores()});
  int64_t k = s.keys * s.depth, v = s.keys * s.width, q = s.blockRows() * s.depth, out = s.blockRows() * s.width;
  return scratchOf({s.scores(), s.scores(), k, v, k, v, q, out, q});
}

LogicalResult AttentionGradOp::emitKernel(OpBuilder &b, ValueRange operands, ValueRange results, Value begin,
                                          Value end, int64_t lanes) {
  if (failed(checkElement(*this, getLse())))
    return failure();
  Location loc = getLoc();
  Loops l(b, loc, lanes);
  Shape s(getQuery(), getKey(), getValue());
  Value q = operands[0], k = operands[1], v = operands[2], out = operands[3], lse = operands[4], dout = operands[5];
  Value mask = getMask() ? operands[6] : Value();
  Value dq = results[0], dk = results[1], dv = results[2];
  double scale = getScale().convertToDouble();
  Blocks blocks(l, s, mask, mask ? cast<RankedTensorType>(getMask().getType()) : RankedTensorType(), getCausal(), scale);
  Drops drops(l, s, getDropoutAttr(), operands.take_back(getRandom().size()));
  auto i = [&](int64_t value) { return l.index(value); };
  Block *entry = b.getInsertionBlock();
  Value p = l.scratch(entry, s.scores()), dp = l.scratch(entry, s.scores());
  Value wideK, wideV, wideDk, wideDv, wideQ, wideDout, wideDq;
  if (s.halves()) {
    wideK = l.scratch(entry, s.keys * s.depth), wideV = l.scratch(entry, s.keys * s.width);
    wideDk = l.scratch(entry, s.keys * s.depth), wideDv = l.scratch(entry, s.keys * s.width);
    wideQ = l.scratch(entry, s.blockRows() * s.depth), wideDout = l.scratch(entry, s.blockRows() * s.width);
    wideDq = l.scratch(entry, s.blockRows() * s.depth);
  }
  int64_t sharing = s.heads / s.groups;

  l.forRange(begin, end, [&](Value group) {
    Value batch = l.div(group, i(s.groups));
    Value ofKeys = i(s.keys * s.depth), ofValues = i(s.keys * s.width);
    Value toK = l.mul(group, ofKeys), toV = l.mul(group, ofValues);
    auto [keys, kAt] = blocks.widened(k, toK, wideK, ofKeys);
    auto [values, vAt] = blocks.widened(v, toV, wideV, ofValues);
    Value sumK = s.halves() ? wideDk : dk, sumV = s.halves() ? wideDv : dv;
    blocks.zero(sumK, kAt, l.add(kAt, ofKeys));
    blocks.zero(sumV, vAt, l.add(vAt, ofValues));
    l.forRange(i(0), i(sharing), [&](Value member) {
      // Heads of a group follow each other, and so do groups of a batch row.
      Value pair = l.add(l.mul(group, i(sharing)), member);
      Value head = l.rem(pair, i(s.heads));
      l.forRange(i(0), i(s.blocks()), [&](Value block) {
        Value first = l.mul(block, i(s.blockRows()));
        Value count = l.min(i(s.blockRows()), l.sub(i(s.rows), first));
        Value limit = blocks.visible(l.sub(l.add(first, count), i(1)));
        Value row0 = l.add(l.mul(pair, i(s.rows)), first);
        Value toQ = l.mul(row0, i(s.depth)), toOut = l.mul(row0, i(s.width));
        auto [queries, qAt] = blocks.widened(q, toQ, wideQ, l.mul(count, i(s.depth)));
        auto [grads, oAt] = blocks.widened(dout, toOut, wideDout, l.mul(count, i(s.width)));
        blocks.multiply(count, limit, queries, qAt, keys, kAt, p);
        l.gemm(false, true, count, limit, i(s.width), 1, {grads, oAt, i(s.width)}, {values, vAt, i(s.width)}, 0,
               {dp, i(0), i(s.keys)});
        // p becomes the probabilities, dp the gradient of the scores.
        l.forRange(i(0), count, [&](Value r) {
          Value at = l.mul(r, i(s.keys)), row = l.add(first, r), seen = blocks.visible(row);
          blocks.addMask(batch, head, row, p, at, seen);
          Value from = l.add(oAt, l.mul(r, i(s.width))), of = l.add(toOut, l.mul(r, i(s.width)));
          Value none = l.splat(l.real(0));
          Value delta = l.vectors(i(0), i(s.width), none, [&](Value j, Value m, ValueRange c) -> SmallVector<Value> {
            Value x = l.load(grads, l.add(from, j), m), y = l.load(out, l.add(of, j), m, s.element);
            return {l.keep(m, arith::AddFOp::create(b, loc, c[0], arith::MulFOp::create(b, loc, x, y)), c[0])};
          })[0];
          Value shift = l.splat(memref::LoadOp::create(b, loc, lse, l.add(row0, r)));
          Value start = drops.rowStart(batch, head, row);
          Value both = l.splat(l.sumLanes(delta)), factor = l.splat(l.real(scale));
          l.vectors(i(0), seen, {}, [&](Value j, Value m, ValueRange) -> SmallVector<Value> {
            Value x = l.load(p, l.add(at, j), m), y = l.load(dp, l.add(at, j), m);
            Value e = math::ExpOp::create(b, loc, arith::SubFOp::create(b, loc, x, shift));
            Value kept = drops ? drops.isKept(start, j) : Value();
            y = kept ? drops.apply(kept, y) : y;
            Value d = arith::MulFOp::create(b, loc, e, arith::SubFOp::create(b, loc, y, both));
            l.store(p, l.add(at, j), m, kept ? drops.apply(kept, e) : e);
            l.store(dp, l.add(at, j), m, arith::MulFOp::create(b, loc, d, factor));
            return {};
          });
          blocks.zero(p, l.add(at, seen), l.add(at, limit));
          blocks.zero(dp, l.add(at, seen), l.add(at, limit));
        });
        l.gemm(true, false, limit, i(s.width), count, 1, {p, i(0), i(s.keys)}, {grads, oAt, i(s.width)}, 1,
               {sumV, vAt, i(s.width)});
        l.gemm(false, false, count, i(s.depth), limit, 1, {dp, i(0), i(s.keys)}, {keys, kAt, i(s.depth)}, 0,
               {wideDq ? wideDq : dq, qAt, i(s.depth)});
        l.gemm(true, false, limit, i(s.depth), count, 1, {dp, i(0), i(s.keys)}, {queries, qAt, i(s.depth)}, 1,
               {sumK, kAt, i(s.depth)});
        if (wideDq)
          blocks.narrow(wideDq, dq, toQ, l.mul(count, i(s.depth)));
      });
    });
    if (s.halves()) {
      blocks.narrow(wideDk, dk, toK, ofKeys);
      blocks.narrow(wideDv, dv, toV, ofValues);
    }
  });
  return success();
}
