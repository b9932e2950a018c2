//===- Data.cpp - Elements of data movement, reductions and lookups -------===//
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Emit/Reduction.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Embedding.h"
#include "dialects/nn/Ops/Gather.h"
#include "dialects/nn/Ops/Reduce.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

namespace {
ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}
Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }
using Indices = SmallVector<LinearIndex>;

/// Returns `Rows` if each element of `from` is repeated in `to`, as from [R..., 1] to [R..., C],
/// else `Any`.
Access sizeAfter(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  if (from.size() != to.size())
    return Access::Any;
  size_t i = 0;
  while (i < from.size() && from[i] == to[i])
    ++i;
  return llvm::all_of(from.drop_front(i), [](int64_t size) { return size == 1; }) ? Access::Rows
                                                                                  : Access::Any;
}

/// Selects `value` where `condition` holds, else `other`; all may be vectors.
Value choose(OpBuilder &b, Location loc, Value condition, Value value, Value other) {
  Value both[] = {value, other};
  matchLanes(b, loc, both);
  return arith::SelectOp::create(b, loc, condition, both[0], both[1]);
}

/// Emits a lookup in batch `outer` of a table: element `column` of the row that the index tuple
/// indices[at + i] selects (row-major over `sizes`), or `otherwise` if an index is not in [0,
/// sizes[i]).
Value lookup(ElementEmitter &emitter, Operation *op, Value table, Value indices,
             const LinearIndex &at, ArrayRef<int64_t> sizes, int64_t inner,
             const LinearIndex &outer, const LinearIndex &column, double otherwise = 0) {
  OpBuilder &b = emitter.builder();
  Location loc = op->getLoc();
  Value inside;
  LinearIndex row;
  int64_t rows = 1;
  for (auto [i, size] : llvm::enumerate(sizes)) {
    Value part = emitter.emit(indices, at.plus(i)), fits;
    LinearIndex index;
    if (!part || !emitter.runtimeDim(part, size, index, fits))
      return nullptr;
    inside = inside ? Value(arith::AndIOp::create(b, loc, inside, fits)) : fits;
    row = row.times(size).plus(index);
    rows *= size;
  }
  Value element =
      emitter.emit(table, outer.times(rows * inner).plus(row.times(inner)).plus(column));
  if (!element)
    return nullptr;
  Value nothing = constantLike(b, loc, elementOf(table), otherwise);
  return choose(b, loc, inside, element, nothing);
}
} // namespace

Value shale::nn::identityOf(OpBuilder &b, Location loc, ReduceKind kind, Type type) {
  Type element = getElementTypeOrSelf(type);
  auto limit = [&](bool highest) -> Value {
    TypedAttr scalar;
    if (auto real = dyn_cast<FloatType>(element))
      scalar =
          FloatAttr::get(element, APFloat::getInf(real.getFloatSemantics(), /*Negative=*/!highest));
    else
      scalar = IntegerAttr::get(
          element, highest ? APInt::getSignedMaxValue(element.getIntOrFloatBitWidth())
                           : APInt::getSignedMinValue(element.getIntOrFloatBitWidth()));
    if (auto wide = dyn_cast<VectorType>(type))
      scalar = DenseElementsAttr::get(wide, Attribute(scalar));
    return arith::ConstantOp::create(b, loc, scalar);
  };
  switch (kind) {
  case ReduceKind::Sum:
    return constantLike(b, loc, type, 0);
  case ReduceKind::Prod:
    return constantLike(b, loc, type, 1);
  case ReduceKind::Max:
    return limit(false);
  case ReduceKind::Min:
    return limit(true);
  }
  return nullptr;
}

Value shale::nn::combine(OpBuilder &b, Location loc, ReduceKind kind, Value lhs, Value rhs) {
  bool real = isa<FloatType>(getElementTypeOrSelf(lhs.getType()));
  switch (kind) {
  case ReduceKind::Sum:
    return real ? Value(arith::AddFOp::create(b, loc, lhs, rhs))
                : Value(arith::AddIOp::create(b, loc, lhs, rhs));
  case ReduceKind::Prod:
    return real ? Value(arith::MulFOp::create(b, loc, lhs, rhs))
                : Value(arith::MulIOp::create(b, loc, lhs, rhs));
  case ReduceKind::Max:
    return real ? Value(arith::MaximumFOp::create(b, loc, lhs, rhs))
                : Value(arith::MaxSIOp::create(b, loc, lhs, rhs));
  case ReduceKind::Min:
    return real ? Value(arith::MinimumFOp::create(b, loc, lhs, rhs))
                : Value(arith::MinSIOp::create(b, loc, lhs, rhs));
  }
  return nullptr;
}

Access ReshapeOp::getAccess(unsigned) { return Access::Same; }
Access TransposeOp::getAccess(unsigned) { return Access::Once; }
Access SliceOp::getAccess(unsigned) { return Access::Once; }
Access PadOp::getAccess(unsigned) { return Access::Once; }
Access ConcatOp::getAccess(unsigned) { return Access::Once; }

Access BroadcastOp::getAccess(unsigned) {
  // All operand dimensions lead the result, new ones follow: one element per row.
  ArrayRef<int64_t> from = shapeOf(getInput()), to = shapeOf(getResult());
  for (auto [i, dim] : llvm::enumerate(getDims()))
    if (dim != int64_t(i) || from[i] != to[i])
      return from.empty() ? Access::Any : sizeAfter(from, to);
  return Access::Rows;
}

Access ReduceOp::getAccess(unsigned) {
  int64_t rank = shapeOf(getInput()).size(), first = rank - int64_t(getDims().size());
  for (auto [i, dim] : llvm::enumerate(getDims()))
    if (dim != first + int64_t(i))
      return Access::Folds;
  return Access::Reduces;
}

bool ConstantOp::canEmit() {
  auto dense = dyn_cast<DenseElementsAttr>(getValue());
  return dense && dense.isSplat();
}

Value ConstantOp::emitAt(ElementEmitter &emitter, const LinearIndex &) {
  auto scalar = cast<DenseElementsAttr>(getValue()).getSplatValue<TypedAttr>();
  return arith::ConstantOp::create(emitter.builder(), getLoc(), scalar);
}

Value IotaOp::emitAt(ElementEmitter &emitter, const LinearIndex &index) {
  Indices indices;
  if (!emitter.delinearize(index, shapeOf(getResult()), indices))
    return nullptr;
  return emitter.number(indices[getDim()], elementOf(getResult()));
}

Value ReshapeOp::emitAt(ElementEmitter &emitter, const LinearIndex &index) {
  return emitter.emit(getInput(), index);
}

Value TransposeOp::emitAt(ElementEmitter &emitter, const LinearIndex &index) {
  Indices indices, source(getPerm().size());
  if (!emitter.delinearize(index, shapeOf(getResult()), indices))
    return nullptr;
  for (auto [to, from] : llvm::enumerate(getPerm()))
    source[from] = indices[to];
  return emitter.emit(getInput(), linearize(source, shapeOf(getInput())));
}

Value BroadcastOp::emitAt(ElementEmitter &emitter, const LinearIndex &index) {
  ArrayRef<int64_t> from = shapeOf(getInput());
  // A scalar is the same everywhere, so the result's shape does not matter.
  if (llvm::all_of(from, [](int64_t size) { return size == 1; }))
    return emitter.emit(getInput(), LinearIndex());
  Indices indices, source(from.size());
  if (!emitter.delinearize(index, shapeOf(getResult()), indices))
    return nullptr;
  for (auto [i, dim] : llvm::enumerate(getDims()))
    if (from[i] != 1)
      source[i] = indices[dim];
  return emitter.emit(getInput(), linearize(source, from));
}

Value SliceOp::emitAt(ElementEmitter &emitter, const LinearIndex &index) {
  Indices indices;
  if (!emitter.delinearize(index, shapeOf(getResult()), indices))
    return nullptr;
  for (size_t i = 0; i < indices.size(); ++i)
    indices[i] = indices[i].times(getStrides()[i]).plus(getStarts()[i]);
  return emitter.emit(getInput(), linearize(indices, shapeOf(getInput())));
}

Value PadOp::emitAt(ElementEmitter &emitter, const LinearIndex &index) {
  OpBuilder &b = emitter.builder();
  ArrayRef<int64_t> from = shapeOf(getInput());
  Value padding = constantLike(b, getLoc(), elementOf(getInput()), getValue().convertToDouble());
  Indices indices;
  if (!emitter.delinearize(index, shapeOf(getResult()), indices))
    return nullptr;
  Value inside;
  auto also = [&](Value condition) {
    inside = inside ? Value(arith::AndIOp::create(b, getLoc(), inside, condition)) : condition;
  };
  for (size_t i = 0; i < indices.size(); ++i) {
    int64_t step = getInterior()[i] + 1;
    int64_t extent = from[i] == 0 ? 0 : (from[i] - 1) * step + 1;
    Value condition;
    LinearIndex relative;
    switch (emitter.within(indices[i], getLow()[i], getLow()[i] + extent, relative, condition)) {
    case ElementEmitter::Within::Retry:
      return nullptr;
    case ElementEmitter::Within::Never:
      return padding;
    case ElementEmitter::Within::Sometimes:
      also(condition);
      break;
    case ElementEmitter::Within::Always:
      break;
    }
    indices[i] = relative;
    if (step > 1) {
      LinearIndex quotient, remainder;
      if (!emitter.divide(relative, step, quotient, remainder))
        return nullptr;
      Value rest = emitter.number(remainder, b.getI64Type());
      if (!rest)
        return nullptr;
      also(arith::CmpIOp::create(b, getLoc(), arith::CmpIPredicate::eq, rest,
                                 constantLike(b, getLoc(), rest.getType(), 0)));
      indices[i] = quotient;
    }
  }
  Value element = emitter.emit(getInput(), linearize(indices, from));
  if (!element || !inside)
    return element;
  Value values[] = {element, padding};
  matchLanes(b, getLoc(), values);
  if (isa<VectorType>(inside.getType()) && !isa<VectorType>(values[0].getType())) {
    Value all[] = {inside, element, padding};
    matchLanes(b, getLoc(), all);
    return arith::SelectOp::create(b, getLoc(), all[0], all[1], all[2]);
  }
  return arith::SelectOp::create(b, getLoc(), inside, values[0], values[1]);
}

Value ConcatOp::emitAt(ElementEmitter &emitter, const LinearIndex &index) {
  OpBuilder &b = emitter.builder();
  Indices indices;
  if (!emitter.delinearize(index, shapeOf(getResult()), indices))
    return nullptr;
  int64_t start = 0;
  Value chosen;
  for (Value input : getInputs()) {
    int64_t size = shapeOf(input)[getDim()];
    Indices source = indices;
    Value condition;
    auto where =
        emitter.within(indices[getDim()], start, start + size, source[getDim()], condition);
    start += size;
    if (where == ElementEmitter::Within::Retry)
      return nullptr;
    if (where == ElementEmitter::Within::Never)
      continue;
    Value element = emitter.emit(input, linearize(source, shapeOf(input)));
    if (!element || where == ElementEmitter::Within::Always)
      return element;
    chosen = chosen ? choose(b, getLoc(), condition, element, chosen) : element;
  }
  return chosen;
}

bool GatherOp::readsMemory(unsigned number) { return number == 0; }

Value GatherOp::emitAt(ElementEmitter &emitter, const LinearIndex &index) {
  ArrayRef<int64_t> from = shapeOf(getInput()), at = shapeOf(getIndices());
  int64_t dim = getDim(), inner = 1, picks = 1;
  for (int64_t size : from.drop_front(dim + 1))
    inner *= size;
  for (int64_t size : at)
    picks *= size;
  LinearIndex rest, column, outer, pick;
  if (!emitter.divide(index, inner, rest, column) || !emitter.divide(rest, picks, outer, pick))
    return nullptr;
  return lookup(emitter, *this, getInput(), getIndices(), pick, {from[dim]}, inner, outer, column);
}

bool GatherNdOp::readsMemory(unsigned number) { return number == 0; }

Value GatherNdOp::emitAt(ElementEmitter &emitter, const LinearIndex &index) {
  ArrayRef<int64_t> from = shapeOf(getInput()), at = shapeOf(getIndices());
  int64_t batch = getBatchDims(), tuple = at.back(), inner = 1, picks = 1;
  for (int64_t size : from.drop_front(batch + tuple))
    inner *= size;
  for (int64_t size : at.drop_back().drop_front(batch))
    picks *= size;
  LinearIndex pick, column, outer, unused;
  if (!emitter.divide(index, inner, pick, column) || !emitter.divide(pick, picks, outer, unused))
    return nullptr;
  // Computed indices are not checked elsewhere: NaN ends a run that reads out of range.
  double otherwise =
      isa<FloatType>(elementOf(getInput())) ? std::numeric_limits<double>::quiet_NaN() : 0;
  return lookup(emitter, *this, getInput(), getIndices(), pick.times(tuple),
                from.slice(batch, tuple), inner, outer, column, otherwise);
}

bool EmbeddingOp::readsMemory(unsigned number) { return number == 0; }

Value EmbeddingOp::emitAt(ElementEmitter &emitter, const LinearIndex &index) {
  ArrayRef<int64_t> from = shapeOf(getTable());
  LinearIndex row, column;
  if (!emitter.divide(index, from[1], row, column))
    return nullptr;
  return lookup(emitter, *this, getTable(), getIndices(), row, {from[0]}, from[1], LinearIndex(),
                column);
}

Value ReduceOp::emitAt(ElementEmitter &emitter, const LinearIndex &index) {
  OpBuilder &b = emitter.builder();
  ArrayRef<int64_t> from = shapeOf(getInput());
  Indices kept, source(from.size());
  if (!emitter.delinearize(index, shapeOf(getResult()), kept))
    return nullptr;
  size_t next = 0;
  for (int64_t i = 0; i < int64_t(from.size()); ++i)
    if (!llvm::is_contained(getDims(), i))
      source[i] = kept[next++];
  Value initial = emitter.widen(index, identityOf(b, getLoc(), getKind(), elementOf(getInput())));
  std::function<Value(size_t, Value)> nest = [&](size_t depth, Value carried) -> Value {
    if (depth == getDims().size()) {
      Value element = emitter.emit(getInput(), linearize(source, from));
      if (!element)
        return nullptr;
      return combine(b, getLoc(), getKind(), carried, emitter.widen(index, element));
    }
    int64_t dim = getDims()[depth];
    return emitter.loop(index, from[dim], carried, [&](const LinearIndex &i, Value value) {
      source[dim] = i;
      return nest(depth + 1, value);
    });
  };
  return nest(0, initial);
}

Value CumsumOp::emitAt(ElementEmitter &emitter, const LinearIndex &index) {
  // Loops over the whole line and adds only the elements that count. This is
  // quadratic, but is used for short lines of positions.
  OpBuilder &b = emitter.builder();
  ArrayRef<int64_t> from = shapeOf(getInput());
  Indices source;
  if (!emitter.delinearize(index, from, source))
    return nullptr;
  LinearIndex here = source[getDim()];
  Value zero = emitter.widen(index, constantLike(b, getLoc(), elementOf(getInput()), 0));
  return emitter.loop(index, from[getDim()], zero, [&](const LinearIndex &i, Value sum) -> Value {
    source[getDim()] = i;
    Value element = emitter.emit(getInput(), linearize(source, from));
    Value at[] = {emitter.number(i, b.getI64Type()), emitter.number(here, b.getI64Type())};
    if (!element || !at[0] || !at[1])
      return nullptr;
    matchLanes(b, getLoc(), at);
    auto predicate = getReverse()
                         ? (getExclusive() ? arith::CmpIPredicate::sgt : arith::CmpIPredicate::sge)
                         : (getExclusive() ? arith::CmpIPredicate::slt : arith::CmpIPredicate::sle);
    Value counts = arith::CmpIOp::create(b, getLoc(), predicate, at[0], at[1]);
    Value added = combine(b, getLoc(), ReduceKind::Sum, sum, emitter.widen(index, element));
    return arith::SelectOp::create(b, getLoc(), counts, added, sum);
  });
}
