//===- Data.cpp - Gradients of data movement and reductions ---------------===//
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Gradients/Build.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Gather.h"
#include "dialects/nn/Ops/Reduce.h"
#include "dialects/nn/Ops/Sort.h"

using namespace mlir;
using namespace shale::nn;

Value Build::reshape(Value x, Type to) const {
  return x.getType() == to ? x : ReshapeOp::create(builder, loc, to, x);
}

Value Build::broadcast(Value x, Type to, ArrayRef<int64_t> dims) const {
  return BroadcastOp::create(builder, loc, to, x, dims);
}

LogicalResult ReshapeOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                       ArrayRef<bool>, SmallVectorImpl<Value> &operandGrads) {
  Build b{builder, getLoc()};
  operandGrads[0] = b.reshape(resultGrads[0], Build::type(getInput()));
  return success();
}

LogicalResult TransposeOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                         ArrayRef<bool>, SmallVectorImpl<Value> &operandGrads) {
  SmallVector<int64_t> inverse(getPerm().size());
  for (auto [to, from] : llvm::enumerate(getPerm()))
    inverse[from] = to;
  operandGrads[0] =
      TransposeOp::create(builder, getLoc(), getInput().getType(), resultGrads[0], inverse);
  return success();
}

// The gradient of an operand element is the sum over the result elements that repeat it.
LogicalResult BroadcastOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                         ArrayRef<bool>, SmallVectorImpl<Value> &operandGrads) {
  Build b{builder, getLoc()};
  RankedTensorType from = Build::type(getInput());
  RankedTensorType to = Build::type(getResult());
  SmallVector<bool> kept(to.getRank(), false);
  for (auto [i, d] : llvm::enumerate(getDims()))
    kept[d] = from.getDimSize(i) == to.getDimSize(d);
  SmallVector<int64_t> repeated;
  for (int64_t d = 0; d < to.getRank(); ++d)
    if (!kept[d])
      repeated.push_back(d);
  Value sum = resultGrads[0];
  if (!repeated.empty())
    sum = b.reduce(ReduceKind::Sum, sum, repeated);
  operandGrads[0] = b.reshape(sum, from);
  return success();
}

// Elements that the slice does not read have a zero gradient.
LogicalResult SliceOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                     ArrayRef<bool>, SmallVectorImpl<Value> &operandGrads) {
  RankedTensorType from = Build::type(getInput());
  SmallVector<int64_t> low, high, interior;
  for (int64_t d = 0; d < from.getRank(); ++d) {
    int64_t count = Build::type(getResult()).getDimSize(d);
    int64_t reach = count == 0 ? 0 : (count - 1) * getStrides()[d] + 1;
    low.push_back(getStarts()[d]);
    high.push_back(from.getDimSize(d) - getStarts()[d] - reach);
    interior.push_back(getStrides()[d] - 1);
  }
  operandGrads[0] =
      PadOp::create(builder, getLoc(), from, resultGrads[0], low, high, interior, APFloat(0.0));
  return success();
}

LogicalResult PadOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool>,
                                   SmallVectorImpl<Value> &operandGrads) {
  RankedTensorType from = Build::type(getInput());
  SmallVector<int64_t> limits, strides;
  for (int64_t d = 0; d < from.getRank(); ++d) {
    int64_t size = from.getDimSize(d), step = getInterior()[d] + 1;
    limits.push_back(getLow()[d] + (size == 0 ? 0 : (size - 1) * step + 1));
    strides.push_back(step);
  }
  operandGrads[0] =
      SliceOp::create(builder, getLoc(), from, resultGrads[0], getLow(), limits, strides);
  return success();
}

LogicalResult ConcatOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                      ArrayRef<bool> wanted, SmallVectorImpl<Value> &operandGrads) {
  RankedTensorType to = Build::type(getResult());
  SmallVector<int64_t> starts(to.getRank(), 0), strides(to.getRank(), 1);
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    RankedTensorType from = Build::type(input);
    SmallVector<int64_t> limits(to.getShape());
    limits[getDim()] = starts[getDim()] + from.getDimSize(getDim());
    if (wanted[i])
      operandGrads[i] =
          SliceOp::create(builder, getLoc(), from, resultGrads[0], starts, limits, strides);
    starts[getDim()] = limits[getDim()];
  }
  return success();
}

LogicalResult GatherNdOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                        ArrayRef<bool>, SmallVectorImpl<Value> &operandGrads) {
  operandGrads[0] = GatherNdGradOp::create(builder, getLoc(), getInput().getType(), getIndices(),
                                           resultGrads[0], getBatchDimsAttr());
  return success();
}

LogicalResult TopKOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads, ArrayRef<bool>,
                                    SmallVectorImpl<Value> &operandGrads) {
  RankedTensorType at = Build::type(getIndices());
  SmallVector<int64_t> tuples(at.getShape());
  tuples.push_back(1);
  Value indices = ReshapeOp::create(builder, getLoc(), at.clone(tuples), getIndices());
  operandGrads[0] = GatherNdGradOp::create(builder, getLoc(), getInput().getType(), indices,
                                           resultGrads[0], at.getRank() - 1);
  return success();
}

/// Returns truth values of the shape of index tuples without their last dimension: whether a tuple
/// is inside of `sizes`.
static Value tuplesInside(const Build &b, Value indices, ArrayRef<int64_t> sizes) {
  RankedTensorType type = Build::type(indices);
  SmallVector<APInt> ends;
  for (int64_t size : sizes)
    ends.push_back(APInt(type.getElementTypeBitWidth(), size, /*isSigned=*/true));
  auto row = RankedTensorType::get({int64_t(sizes.size())}, type.getElementType());
  Value end = ConstantOp::create(b.builder, b.loc, DenseElementsAttr::get(row, ends));
  end = b.broadcast(end, type, {type.getRank() - 1});
  Value low = b.compare(Predicate::GE, indices, b.constant(indices, 0));
  Value both =
      AndOp::create(b.builder, b.loc, low.getType(), low, b.compare(Predicate::LT, indices, end));
  Value number = b.cast(both, b.builder.getI32Type());
  Value least = b.reduce(ReduceKind::Min, number, {type.getRank() - 1});
  return b.compare(Predicate::NE, least, b.constant(least, 0));
}

// A slice is added once, so its gradient is what its tuple picks; 0 if the tuple is out of range.
LogicalResult GatherNdGradOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                            ArrayRef<bool> wanted,
                                            SmallVectorImpl<Value> &operandGrads) {
  if (!wanted[1])
    return success();
  Build b{builder, getLoc()};
  RankedTensorType to = Build::type(getGrad()), whole = Build::type(getResult()),
                   at = Build::type(getIndices());
  Value picked = GatherNdOp::create(builder, getLoc(), to.clone(whole.getElementType()),
                                    resultGrads[0], getIndices(), getBatchDims());
  Value inside =
      tuplesInside(b, getIndices(), whole.getShape().slice(getBatchDims(), at.getShape().back()));
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, at.getRank() - 1));
  Value all = b.broadcast(inside, to.clone(builder.getI1Type()), dims);
  operandGrads[1] = b.cast(b.select(all, picked, b.constant(picked, 0)), to.getElementType());
  return success();
}

// An element is part of every later sum, so its gradient is the running sum from the other end.
LogicalResult CumsumOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                      ArrayRef<bool>, SmallVectorImpl<Value> &operandGrads) {
  operandGrads[0] = CumsumOp::create(builder, getLoc(), getInput().getType(), resultGrads[0],
                                     getDim(), getExclusive(), !getReverse());
  return success();
}

/// Returns the derivative of a product for each element: the product of the other
/// elements, also where elements are zero.
static Value othersProduct(const Build &b, Value input, ArrayRef<int64_t> dims,
                           ArrayRef<int64_t> kept) {
  Value zero = b.constant(input, 0), one = b.constant(input, 1);
  Value isZero = b.compare(Predicate::EQ, input, zero);
  Value nonZero = b.select(isZero, one, input);
  Value zeros = b.select(isZero, one, zero);
  RankedTensorType type = Build::type(input);
  Value product = b.broadcast(b.reduce(ReduceKind::Prod, nonZero, dims), type, kept);
  Value allZeros = b.broadcast(b.reduce(ReduceKind::Sum, zeros, dims), type, kept);
  Value alone = b.compare(Predicate::EQ, b.sub(allZeros, zeros), zero);
  return b.select(alone, b.div(product, nonZero), zero);
}

LogicalResult ReduceOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                      ArrayRef<bool>, SmallVectorImpl<Value> &operandGrads) {
  Build b{builder, getLoc()};
  RankedTensorType from = Build::type(getInput());
  SmallVector<int64_t> kept;
  for (int64_t d = 0; d < from.getRank(); ++d)
    if (!llvm::is_contained(getDims(), d))
      kept.push_back(d);
  Value g = resultGrads[0];
  switch (getKind()) {
  case ReduceKind::Sum:
    operandGrads[0] = b.broadcast(g, from, kept);
    return success();
  case ReduceKind::Prod:
    operandGrads[0] =
        b.mul(b.broadcast(g, from, kept), othersProduct(b, getInput(), getDims(), kept));
    return success();
  case ReduceKind::Max:
  case ReduceKind::Min: {
    Value extremum = b.broadcast(getResult(), from, kept);
    Value equal = b.compare(Predicate::EQ, getInput(), extremum);
    Value chosen = b.cast(equal, from.getElementType());
    Value share = b.div(g, b.reduce(ReduceKind::Sum, chosen, getDims()));
    operandGrads[0] = b.mul(chosen, b.broadcast(share, from, kept));
    return success();
  }
  }
  return emitOpError("has no gradient");
}
