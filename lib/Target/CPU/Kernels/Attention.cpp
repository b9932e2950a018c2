//===- Attention.cpp - Blocked attention, forward and backward ------------===//
//
// The kernels process one block of query rows of one head against all visible keys
// at a time; only the scores of this block are in memory. The backward kernel
// recomputes them from lse (Dao et al., arXiv 2205.14135, section 3). One of its
// rows is a key head, so that sums over the queries of its heads have a fixed order.
//
// 16-bit floats are widened in scratch: keys and values once per head, queries and
// results per block. Sums are f32 and are rounded once.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Attention.h"
#include "dialects/nn/Emit/Random.h"
#include "dialects/nn/LargeLse.h"
#include "lib/Target/CPU/Kernels/Kernels.h"
#include "lib/Target/CPU/Kernels/Loops.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace shale::cpu;
using namespace shale::nn;

namespace {

/// Sizes of an attention op, as in its description.
struct Shape {
  int64_t batch, heads, groups, rows, keys, depth, width;
  std::optional<int64_t> window; // none if all keys are in it
  bool causal;
  template <typename OpT> explicit Shape(OpT op) : causal(op.getCausal()) {
    auto query = cast<RankedTensorType>(op.getQuery().getType());
    ArrayRef<int64_t> q = query.getShape(),
                      v = cast<RankedTensorType>(op.getValue().getType()).getShape();
    element = query.getElementType();
    batch = q[0], heads = q[1], rows = q[2], depth = q[3], groups = v[1], keys = v[2], width = v[3];
    if (std::optional<int64_t> size = op.getWindow(); size && *size < rows + keys)
      window = size;
  }
  /// Keys that `count` consecutive query rows see, at most.
  int64_t reach(int64_t count) const {
    return window ? std::min(keys, count + (causal ? 1 : 2) * (*window - 1)) : keys;
  }
  /// Query rows per block: at most 64, and as many that the scores fit in 256 KiB, but at least 8
  /// if there are 8.
  int64_t blockRows() const {
    constexpr int64_t elements = 65536;
    return std::min(rows, std::clamp<int64_t>(elements / std::max<int64_t>(reach(1), 1), 8, 64));
  }
  int64_t blocks() const { return (rows + blockRows() - 1) / blockRows(); }
  /// Columns of a block of scores: the keys that one of its rows sees.
  int64_t columns() const { return reach(blockRows()); }
  /// Elements of a block of scores.
  int64_t scores() const { return blockRows() * columns(); }
  bool is16Bit() const { return element.isBF16() || element.isF16(); }
  Type element;
};

/// Returns the bytes of scratch for areas with the given numbers of f32 elements (Loops::scratch).
int64_t scratchOf(ArrayRef<int64_t> areas) {
  int64_t bytes = 0;
  for (int64_t elements : areas)
    bytes += llvm::alignTo(elements * sizeof(float), 64);
  return bytes;
}

/// A mask of scores in memory, broadcast along dimensions of size 1.
struct MaskArea {
  MaskArea() = default;
  MaskArea(const MutableOperandRange &range, ValueRange operands) {
    if (range.empty())
      return;
    auto type = cast<RankedTensorType>(range.begin()->get().getType());
    memref = operands[range.begin()->getOperandNumber()];
    element = type.getElementType();
    int64_t stride = 1;
    for (int i = 3; i >= 0; --i) {
      strides[i] = type.getDimSize(i) == 1 ? 0 : stride;
      stride *= type.getDimSize(i);
    }
  }
  /// Returns the offset of the element for a row and a key.
  Value rowAt(Loops &l, Value batch, Value head, Value row, Value key) const {
    Value at = l.add(l.mul(batch, l.index(strides[0])),
                     l.add(l.mul(head, l.index(strides[1])), l.mul(row, l.index(strides[2]))));
    return strides[3] ? l.add(at, key) : at;
  }
  Value load(Loops &l, Value base, Value j, Value lanes) const {
    return strides[3] ? l.load(memref, l.add(base, j), lanes, element)
                      : l.splat(l.loadScalar(memref, base, element));
  }
  explicit operator bool() const { return bool(memref); }

  Value memref;
  Type element;
  int64_t strides[4] = {};
};

/// A block of scores and its rows, as the forward and the backward kernel use them. Its first
/// column is the first key that a row of the block sees.
class Blocks {
public:
  template <typename OpT>
  Blocks(Loops &l, const Shape &s, OpT op, ValueRange operands)
      : l(l), s(s), mask(op.getMaskMutable(), operands), seen(op.getSeenMutable(), operands),
        added(op.getAdded()), scale(op.getScale().convertToDouble()) {
    if (op.getHidden())
      hidden = op.getHidden()->convertToDouble();
  }

  Value i(int64_t value) { return l.index(value); }

  /// Returns the number of the first key that query row `row` sees.
  Value firstSeen(Value row) {
    return s.window ? within(l.add(row, i(1 + s.keys - s.rows - *s.window))) : i(0);
  }
  /// Returns the number of the key after the last one that query row `row` sees.
  Value endSeen(Value row) {
    if (!s.causal && !s.window)
      return i(s.keys);
    return within(l.add(row, i((s.causal ? 1 : *s.window) + s.keys - s.rows)));
  }

  /// Emits scores[count, columns] = scale * q k^T.
  void multiply(Value count, Value columns, Value q, Value qAt, Value k, Value kAt, Value scores) {
    l.gemm(false, true, count, columns, i(s.depth), scale, {q, qAt, i(s.depth)},
           {k, kAt, i(s.depth)}, 0, {scores, i(0), i(s.columns())});
  }

  /// The columns [from, to) of a row that it sees. Column 0 is key `start`.
  struct Columns {
    Value start, from, to;
  };
  Columns columns(Value row, Value start) {
    return {start, l.sub(firstSeen(row), start), l.sub(endSeen(row), start)};
  }

  /// Sets the other ones of `count` columns to zero.
  void hide(Value scores, Value at, const Columns &c, Value count) {
    if (s.window)
      l.zero(scores, at, l.add(at, c.from));
    l.zero(scores, l.add(at, c.to), l.add(at, count));
  }

  /// Adds the mask to a row of scores and applies `hidden` to scores that are not seen.
  void applyMasks(Value batch, Value head, Value row, Value scores, Value at, const Columns &c) {
    if (!mask && !seen)
      return;
    Value base = mask ? mask.rowAt(l, batch, head, row, c.start) : Value(),
          from = seen ? seen.rowAt(l, batch, head, row, c.start) : Value();
    Value other = l.splat(l.real(hidden));
    l.vectors(c.from, c.to, {}, [&](Value j, Value lanes, ValueRange) -> SmallVector<Value> {
      Value x = l.load(scores, l.add(at, j), lanes);
      if (mask)
        x = arith::AddFOp::create(l.b, l.loc, x, mask.load(l, base, j, lanes));
      if (seen) {
        Value instead = added ? Value(arith::AddFOp::create(l.b, l.loc, x, other)) : other;
        x = arith::SelectOp::create(l.b, l.loc, seen.load(l, from, j, lanes), x, instead);
      }
      l.store(scores, l.add(at, j), lanes, x);
      return {};
    });
  }

  /// Returns the factor that makes a row's probabilities exp(score - lse) sum to 1 if |lse| is
  /// large, else 1.
  Value normalizer(Value scores, Value at, const Columns &c, Value lse) {
    Value one = l.real(1), none = l.splat(l.real(0)), shift = l.splat(lse);
    Value size = math::AbsFOp::create(l.b, l.loc, lse);
    Value large =
        arith::CmpFOp::create(l.b, l.loc, arith::CmpFPredicate::OGT, size, l.real(kLargeLse));
    Value limit = arith::SelectOp::create(l.b, l.loc, large, c.to, c.from);
    Value total = l.vectors(
        c.from, limit, none, [&](Value j, Value lanes, ValueRange sum) -> SmallVector<Value> {
          Value x = l.load(scores, l.add(at, j), lanes);
          Value e = math::ExpOp::create(l.b, l.loc, arith::SubFOp::create(l.b, l.loc, x, shift));
          return {l.keep(lanes, arith::AddFOp::create(l.b, l.loc, sum[0], e), sum[0])};
        })[0];
    Value part = arith::DivFOp::create(l.b, l.loc, one, l.sumLanes(total));
    return l.splat(arith::SelectOp::create(l.b, l.loc, large, part, one));
  }

  /// Whether a finite number replaces hidden scores, so that they get no gradient. With -inf the
  /// probability is 0.
  bool replaces() const { return seen && !added && std::isfinite(hidden); }

  /// Widens an area of 16-bit floats to scratch. Returns the f32 area and its offset; without
  /// scratch, the given area.
  std::pair<Value, Value> widened(Value area, Value at, Value scratch, Value count) {
    if (!scratch)
      return {area, at};
    widen(area, at, scratch, count);
    return {scratch, i(0)};
  }

  void widen(Value stored, Value at, Value scratch, Value count) {
    l.vectors(i(0), count, {}, [&](Value j, Value lanes, ValueRange) -> SmallVector<Value> {
      l.store(scratch, j, lanes, l.load(stored, l.add(at, j), lanes, s.element));
      return {};
    });
  }

  void narrow(Value scratch, Value stored, Value at, Value count) {
    l.vectors(i(0), count, {}, [&](Value j, Value lanes, ValueRange) -> SmallVector<Value> {
      l.store(stored, l.add(at, j), lanes, l.load(scratch, j, lanes), s.element);
      return {};
    });
  }

  Loops &l;
  const Shape &s;
  MaskArea mask, seen;
  double hidden = -std::numeric_limits<double>::infinity();
  bool added;
  double scale;

private:
  Value within(Value key) { return l.max(i(0), l.min(i(s.keys), key)); }
};

/// Some of the query rows of one head.
struct RowBlock {
  Value batch, head;
  Value first; ///< the first row, as a number in its head
  Value start; ///< the first key that a row of the block sees
  Value shown; ///< the number of keys from there that its rows see
  Value row0;  ///< the first row, as a number among those of all heads
};

/// Emits which probabilities are dropped (nn.dropout), for one vector of a row at a time.
class Drops {
public:
  /// `random` are buffers of scalars: seed, step, micro-batch and, for a part of a sharded op, the
  /// offset of its elements.
  Drops(Loops &l, const Shape &s, DropAttr dropout, ValueRange random)
      : l(l), s(s), words{l.b, l.loc}, dropout(dropout) {
    if (!dropout)
      return;
    auto scalar = [&](unsigned i) {
      return memref::LoadOp::create(l.b, l.loc, random[i], ValueRange{l.index(0)});
    };
    std::tie(key0, key1) = words.split(scalar(0));
    step = words.split(scalar(1)).first;
    microbatch =
        arith::ShLIOp::create(l.b, l.loc, words.split(scalar(2)).first, words.constant(16));
    groups = s.groups, shared = s.heads / s.groups;
    if (dropout.getWhole().empty())
      return;
    groups = dropout.getWhole()[1], shared = dropout.getWhole()[2];
    offset = arith::IndexCastOp::create(l.b, l.loc, l.b.getIndexType(), scalar(3));
  }

  explicit operator bool() const { return bool(dropout); }

  /// Returns the number of the probability of a row and a key in the unsharded tensor.
  Value rowStart(Value batch, Value head, Value row, Value key) {
    if (!dropout)
      return {};
    Value here = l.index(s.heads / s.groups);
    Value group = l.add(l.mul(batch, l.index(groups)), l.div(head, here));
    Value number = l.add(l.mul(group, l.index(shared)), l.rem(head, here));
    number = l.mul(l.add(l.mul(number, l.index(s.rows)), row), l.index(s.keys));
    number = l.add(number, key);
    return offset ? l.add(number, offset) : number;
  }

  /// Returns a vector of i1: whether the probabilities from column `j` of that row are kept.
  Value isKept(Value start, Value j) {
    Type i64 = l.b.getI64Type();
    Value first = arith::IndexCastOp::create(l.b, l.loc, i64, l.add(start, j));
    SmallVector<int64_t> steps(l.lanes);
    std::iota(steps.begin(), steps.end(), 0);
    auto type = VectorType::get({l.lanes}, i64);
    Value lanes = arith::ConstantOp::create(l.b, l.loc,
                                            DenseElementsAttr::get(type, ArrayRef<int64_t>(steps)));
    auto [low, high] = words.split(arith::AddIOp::create(l.b, l.loc, l.splat(first), lanes));
    Value id = words.constant(static_cast<uint32_t>(dropout.getId()));
    Value word = words.philox({low, words.sum(high, microbatch), step, id}, key0, key1);
    Value threshold = words.constant(dropThreshold(dropout.getRatio().getValueAsDouble()));
    words.match(word, threshold);
    return arith::CmpIOp::create(l.b, l.loc, arith::CmpIPredicate::uge, word, threshold);
  }
  Value apply(Value kept, Value x) {
    Value factor = l.splat(l.real(1 / (1 - dropout.getRatio().getValueAsDouble())));
    return arith::SelectOp::create(l.b, l.loc, kept, arith::MulFOp::create(l.b, l.loc, x, factor),
                                   l.splat(l.real(0)));
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
      continue; // integer scalars for random numbers
    Type element = cast<RankedTensorType>(operand.getType()).getElementType();
    if (!element.isF32() && !shale::is16BitFloat(element))
      return op->emitOpError() << "has a kernel for f32 and 16-bit floats only; got "
                               << operand.getType();
  }
  if (!cast<RankedTensorType>(lse.getType()).getElementType().isF32())
    return op->emitOpError() << "has a kernel for lse in f32 only; got " << lse.getType();
  return success();
}

struct AttentionKernel : OwnKernelOpInterface::ExternalModel<AttentionKernel, AttentionOp> {
  int64_t getRows(Operation *raw) const {
    Shape s(cast<AttentionOp>(raw));
    return s.batch * s.heads * s.blocks();
  }
  int64_t getScratch(Operation *raw) const {
    Shape s(cast<AttentionOp>(raw));
    if (!s.is16Bit())
      return scratchOf({s.scores()});
    return scratchOf({s.scores(), s.keys * s.depth, s.keys * s.width, s.blockRows() * s.depth,
                      s.blockRows() * s.width});
  }

  LogicalResult emit(Operation *raw, OpBuilder &b, ValueRange operands, ValueRange results,
                     Value begin, Value end, int64_t lanes) const {
    auto op = cast<AttentionOp>(raw);
    if (failed(checkElement(op, op.getLse())))
      return failure();
    Location loc = op.getLoc();
    Loops l(b, loc, lanes);
    Shape s(op);
    Value q = operands[0], k = operands[1], v = operands[2];
    Value out = results[0], lse = results[1];
    Blocks blocks(l, s, op, operands);
    Drops drops(l, s, op.getDropoutAttr(), operands.take_back(op.getRandom().size()));
    auto i = [&](int64_t value) { return l.index(value); };
    Block *entry = b.getInsertionBlock();
    Value scores = l.scratch(entry, s.scores());
    Value wideK, wideV, wideQ, wideOut;
    if (s.is16Bit()) {
      wideK = l.scratch(entry, s.keys * s.depth), wideV = l.scratch(entry, s.keys * s.width);
      wideQ = l.scratch(entry, s.blockRows() * s.depth),
      wideOut = l.scratch(entry, s.blockRows() * s.width);
    }

    l.forRange(begin, end, [&](Value item) {
      Value block = l.rem(item, i(s.blocks())), pair = l.div(item, i(s.blocks()));
      Value head = l.rem(pair, i(s.heads)), batch = l.div(pair, i(s.heads));
      Value group = l.add(l.mul(batch, i(s.groups)), l.div(head, i(s.heads / s.groups)));
      Value first = l.mul(block, i(s.blockRows()));
      Value count = l.min(i(s.blockRows()), l.sub(i(s.rows), first));
      Value start = blocks.firstSeen(first);
      Value shown = l.sub(blocks.endSeen(l.sub(l.add(first, count), i(1))), start);
      Value row0 = l.add(l.mul(pair, i(s.rows)), first);
      Value kAt = l.mul(group, i(s.keys * s.depth)), vAt = l.mul(group, i(s.keys * s.width));
      Value keys = k, values = v;
      if (s.is16Bit()) {
        // Blocks of a head are consecutive: widen its keys and values once.
        Value starts = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, item, begin);
        Value another = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, block, i(0));
        auto fresh = scf::IfOp::create(b, loc, arith::OrIOp::create(b, loc, starts, another));
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPoint(fresh.thenBlock()->getTerminator());
        blocks.widen(k, kAt, wideK, i(s.keys * s.depth));
        blocks.widen(v, vAt, wideV, i(s.keys * s.width));
        keys = wideK, values = wideV;
      }
      if (s.is16Bit())
        kAt = vAt = i(0);
      kAt = l.add(kAt, l.mul(start, i(s.depth))), vAt = l.add(vAt, l.mul(start, i(s.width)));
      auto [queries, qAt] =
          blocks.widened(q, l.mul(row0, i(s.depth)), wideQ, l.mul(count, i(s.depth)));
      blocks.multiply(count, shown, queries, qAt, keys, kAt, scores);

      RowBlock rows{batch, head, first, start, shown, row0};
      l.forRange(i(0), count,
                 [&](Value r) { emitRow(l, op, blocks, drops, rows, r, scores, lse); });
      Value to = l.mul(row0, i(s.width));
      l.gemm(false, false, count, i(s.width), shown, 1, {scores, i(0), i(s.columns())},
             {values, vAt, i(s.width)}, 0,
             {wideOut ? wideOut : out, wideOut ? i(0) : to, i(s.width)});
      if (wideOut)
        blocks.narrow(wideOut, out, to, l.mul(count, i(s.width)));
    });
    return success();
  }

  /// Replaces row `r` of a block of scores, a matmul of queries and keys, by its probabilities,
  /// and stores its lse.
  static void emitRow(Loops &l, AttentionOp op, Blocks &blocks, Drops &drops, const RowBlock &rows,
                      Value r, Value scores, Value lse) {
    Value at = l.mul(r, l.index(blocks.s.columns())), row = l.add(rows.first, r);
    Blocks::Columns seen = blocks.columns(row, rows.start);
    blocks.applyMasks(rows.batch, rows.head, row, scores, at, seen);
    Value low = l.splat(l.real(-std::numeric_limits<double>::infinity()));
    Value highest = l.vectors(
        seen.from, seen.to, low, [&](Value j, Value m, ValueRange c) -> SmallVector<Value> {
          Value x = l.load(scores, l.add(at, j), m);
          return {l.keep(m, arith::MaximumFOp::create(l.b, l.loc, c[0], x), c[0])};
        })[0];
    highest = l.maxLanes(highest);
    auto unless = [&](Value x, double number, double instead) -> Value {
      Value is = arith::CmpFOp::create(l.b, l.loc, arith::CmpFPredicate::OEQ, x, l.real(number));
      return arith::SelectOp::create(l.b, l.loc, is, l.real(instead), x);
    };
    if (op.getGuard()) // in a row of -inf, exp(score - 0) is 0
      highest = unless(highest, -std::numeric_limits<double>::infinity(), 0);
    Value shift = l.splat(highest), none = l.splat(l.real(0));
    Value total = l.vectors(
        seen.from, seen.to, none, [&](Value j, Value m, ValueRange c) -> SmallVector<Value> {
          Value x = l.load(scores, l.add(at, j), m);
          Value e = math::ExpOp::create(l.b, l.loc, arith::SubFOp::create(l.b, l.loc, x, shift));
          l.store(scores, l.add(at, j), m, e);
          return {l.keep(m, arith::AddFOp::create(l.b, l.loc, c[0], e), c[0])};
        })[0];
    total = l.sumLanes(total);
    if (op.getGuard())
      total = unless(total, 0, 1);
    blocks.hide(scores, at, seen, rows.shown);
    Value sum = arith::AddFOp::create(l.b, l.loc, math::LogOp::create(l.b, l.loc, total), highest);
    memref::StoreOp::create(l.b, l.loc, sum, lse, l.add(rows.row0, r));
    Value divisor = l.splat(total), number = drops.rowStart(rows.batch, rows.head, row, rows.start);
    l.vectors(seen.from, seen.to, {}, [&](Value j, Value m, ValueRange) -> SmallVector<Value> {
      Value x = arith::DivFOp::create(l.b, l.loc, l.load(scores, l.add(at, j), m), divisor);
      l.store(scores, l.add(at, j), m, drops ? drops.apply(drops.isKept(number, j), x) : x);
      return {};
    });
  }
};

struct AttentionGradKernel
    : OwnKernelOpInterface::ExternalModel<AttentionGradKernel, AttentionGradOp> {
  int64_t getRows(Operation *raw) const {
    Shape s(cast<AttentionGradOp>(raw));
    return s.batch * s.groups;
  }
  int64_t getScratch(Operation *raw) const {
    Shape s(cast<AttentionGradOp>(raw));
    if (!s.is16Bit())
      return scratchOf({s.scores(), s.scores()});
    int64_t k = s.keys * s.depth, v = s.keys * s.width, q = s.blockRows() * s.depth,
            out = s.blockRows() * s.width;
    return scratchOf({s.scores(), s.scores(), k, v, k, v, q, out, q});
  }

  LogicalResult emit(Operation *raw, OpBuilder &b, ValueRange operands, ValueRange results,
                     Value begin, Value end, int64_t lanes) const {
    auto op = cast<AttentionGradOp>(raw);
    if (failed(checkElement(op, op.getLse())))
      return failure();
    Location loc = op.getLoc();
    Loops l(b, loc, lanes);
    Shape s(op);
    Value q = operands[0], k = operands[1], v = operands[2], out = operands[3], lse = operands[4],
          dout = operands[5];
    Value dq = results[0], dk = results[1], dv = results[2];
    Blocks blocks(l, s, op, operands);
    Drops drops(l, s, op.getDropoutAttr(), operands.take_back(op.getRandom().size()));
    auto i = [&](int64_t value) { return l.index(value); };
    Block *entry = b.getInsertionBlock();
    Value p = l.scratch(entry, s.scores()), dp = l.scratch(entry, s.scores());
    Value wideK, wideV, wideDk, wideDv, wideQ, wideDout, wideDq;
    if (s.is16Bit()) {
      wideK = l.scratch(entry, s.keys * s.depth), wideV = l.scratch(entry, s.keys * s.width);
      wideDk = l.scratch(entry, s.keys * s.depth), wideDv = l.scratch(entry, s.keys * s.width);
      wideQ = l.scratch(entry, s.blockRows() * s.depth),
      wideDout = l.scratch(entry, s.blockRows() * s.width);
      wideDq = l.scratch(entry, s.blockRows() * s.depth);
    }
    int64_t sharing = s.heads / s.groups;

    l.forRange(begin, end, [&](Value group) {
      Value batch = l.div(group, i(s.groups));
      Value ofKeys = i(s.keys * s.depth), ofValues = i(s.keys * s.width);
      Value toK = l.mul(group, ofKeys), toV = l.mul(group, ofValues);
      Value keys, kAt, values, vAt;
      std::tie(keys, kAt) = blocks.widened(k, toK, wideK, ofKeys);
      std::tie(values, vAt) = blocks.widened(v, toV, wideV, ofValues);
      Value sumK = s.is16Bit() ? wideDk : dk, sumV = s.is16Bit() ? wideDv : dv;
      l.zero(sumK, kAt, l.add(kAt, ofKeys));
      l.zero(sumV, vAt, l.add(vAt, ofValues));
      l.forRange(i(0), i(sharing), [&](Value member) {
        // The heads of a group are consecutive, and so are the groups of a batch row.
        Value pair = l.add(l.mul(group, i(sharing)), member);
        Value head = l.rem(pair, i(s.heads));
        l.forRange(i(0), i(s.blocks()), [&](Value block) {
          Value first = l.mul(block, i(s.blockRows()));
          Value count = l.min(i(s.blockRows()), l.sub(i(s.rows), first));
          Value start = blocks.firstSeen(first);
          Value shown = l.sub(blocks.endSeen(l.sub(l.add(first, count), i(1))), start);
          Value kHere = l.add(kAt, l.mul(start, i(s.depth))),
                vHere = l.add(vAt, l.mul(start, i(s.width)));
          Value row0 = l.add(l.mul(pair, i(s.rows)), first);
          Value toQ = l.mul(row0, i(s.depth)), toOut = l.mul(row0, i(s.width));
          Value queries, qAt, grads, oAt;
          std::tie(queries, qAt) = blocks.widened(q, toQ, wideQ, l.mul(count, i(s.depth)));
          std::tie(grads, oAt) = blocks.widened(dout, toOut, wideDout, l.mul(count, i(s.width)));
          blocks.multiply(count, shown, queries, qAt, keys, kHere, p);
          l.gemm(false, true, count, shown, i(s.width), 1, {grads, oAt, i(s.width)},
                 {values, vHere, i(s.width)}, 0, {dp, i(0), i(s.columns())});
          RowBlock rows{batch, head, first, start, shown, row0};
          l.forRange(i(0), count, [&](Value r) {
            emitRow(l, op, blocks, drops, rows, r, {p, dp, grads, oAt, out, toOut, lse});
          });
          l.gemm(true, false, shown, i(s.width), count, 1, {p, i(0), i(s.columns())},
                 {grads, oAt, i(s.width)}, 1, {sumV, vHere, i(s.width)});
          l.gemm(false, false, count, i(s.depth), shown, 1, {dp, i(0), i(s.columns())},
                 {keys, kHere, i(s.depth)}, 0, {wideDq ? wideDq : dq, qAt, i(s.depth)});
          l.gemm(true, false, shown, i(s.depth), count, 1, {dp, i(0), i(s.columns())},
                 {queries, qAt, i(s.depth)}, 1, {sumK, kHere, i(s.depth)});
          if (wideDq)
            blocks.narrow(wideDq, dq, toQ, l.mul(count, i(s.depth)));
        });
      });
      if (s.is16Bit()) {
        blocks.narrow(wideDk, dk, toK, ofKeys);
        blocks.narrow(wideDv, dv, toV, ofValues);
      }
    });
    return success();
  }

  /// The buffers of a block of rows, and the offsets of its first row in them.
  struct Areas {
    Value p, dp; ///< scores, and gradients of the probabilities
    Value grads, oAt, out, toOut, lse;
  };

  /// Replaces row `r` of a block of scores by its probabilities, and the gradients of the
  /// probabilities by those of the scores.
  static void emitRow(Loops &l, AttentionGradOp op, Blocks &blocks, Drops &drops,
                      const RowBlock &rows, Value r, const Areas &a) {
    Value at = l.mul(r, l.index(blocks.s.columns())), row = l.add(rows.first, r);
    Blocks::Columns seen = blocks.columns(row, rows.start);
    blocks.applyMasks(rows.batch, rows.head, row, a.p, at, seen);
    Value from = l.add(a.oAt, l.mul(r, l.index(blocks.s.width))),
          of = l.add(a.toOut, l.mul(r, l.index(blocks.s.width)));
    Value none = l.splat(l.real(0));
    Value delta = l.vectors(
        l.index(0), l.index(blocks.s.width), none,
        [&](Value j, Value m, ValueRange c) -> SmallVector<Value> {
          Value x = l.load(a.grads, l.add(from, j), m),
                y = l.load(a.out, l.add(of, j), m, blocks.s.element);
          return {l.keep(
              m, arith::AddFOp::create(l.b, l.loc, c[0], arith::MulFOp::create(l.b, l.loc, x, y)),
              c[0])};
        })[0];
    Value logarithm = memref::LoadOp::create(l.b, l.loc, a.lse, l.add(rows.row0, r)),
          shift = l.splat(logarithm);
    Value part = mayHaveLargeLse(op) ? blocks.normalizer(a.p, at, seen, logarithm) : Value();
    Value number = drops.rowStart(rows.batch, rows.head, row, rows.start);
    Value replaced =
        blocks.replaces() ? blocks.seen.rowAt(l, rows.batch, rows.head, row, rows.start) : Value();
    Value both = l.splat(l.sumLanes(delta)), factor = l.splat(l.real(blocks.scale));
    l.vectors(seen.from, seen.to, {}, [&](Value j, Value m, ValueRange) -> SmallVector<Value> {
      Value x = l.load(a.p, l.add(at, j), m), y = l.load(a.dp, l.add(at, j), m);
      Value e = math::ExpOp::create(l.b, l.loc, arith::SubFOp::create(l.b, l.loc, x, shift));
      e = part ? Value(arith::MulFOp::create(l.b, l.loc, e, part)) : e;
      Value kept = drops ? drops.isKept(number, j) : Value();
      y = kept ? drops.apply(kept, y) : y;
      Value d = arith::MulFOp::create(l.b, l.loc, e, arith::SubFOp::create(l.b, l.loc, y, both));
      l.store(a.p, l.add(at, j), m, kept ? drops.apply(kept, e) : e);
      d = arith::MulFOp::create(l.b, l.loc, d, factor);
      if (replaced)
        d = arith::SelectOp::create(l.b, l.loc, blocks.seen.load(l, replaced, j, m), d, none);
      l.store(a.dp, l.add(at, j), m, d);
      return {};
    });
    blocks.hide(a.p, at, seen, rows.shown);
    blocks.hide(a.dp, at, seen, rows.shown);
  }
};

} // namespace

void shale::cpu::attachAttentionKernels(MLIRContext &context) {
  AttentionOp::attachInterface<AttentionKernel>(context);
  AttentionGradOp::attachInterface<AttentionGradKernel>(context);
}
