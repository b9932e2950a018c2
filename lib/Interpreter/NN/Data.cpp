//===- Data.cpp - Constants and data movement -----------------------------===//
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Gather.h"
#include "dialects/nn/Ops/Reduce.h"
#include "dialects/nn/Ops/Seed.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"
#include "llvm/ADT/bit.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace shale::interp {

namespace {

/// result[i] = input[base + index(i) . strides]
void readStrided(Call &call, ArrayRef<int64_t> strides, int64_t base) {
  const Cell *from = call.operand(0).cells();
  Tensor &result = call.result();
  Cell *to = result.mutableCells();
  walk(result.shape(), strides, base, [&](int64_t i, int64_t offset) { to[i] = from[offset]; });
}

LogicalResult evaluateConstant(nn::ConstantOp op, Call &call) {
  call.results[0] = Tensor::fromAttr(op.getValue());
  if (!call.results[0])
    return op.emitError("holds no dense elements");
  return success();
}

LogicalResult evaluateSeed(nn::SeedOp, Call &call) {
  *call.result().mutableFloats() = 1;
  return success();
}

LogicalResult evaluateIota(nn::IotaOp op, Call &call) {
  Tensor &result = call.result();
  int64_t dim = op.getDim(), stride = result.strides()[dim];
  int64_t size = result.dim(dim);
  bool isFloat = result.isFloat();
  double *floats = isFloat ? result.mutableFloats() : nullptr;
  int64_t *ints = isFloat ? nullptr : result.mutableInts();
  for (int64_t i = 0, e = result.size(); i < e; ++i) {
    int64_t index = i / stride % size;
    if (isFloat)
      floats[i] = static_cast<double>(index);
    else
      ints[i] = index;
  }
  return success();
}

LogicalResult evaluateReshape(nn::ReshapeOp op, Call &call) {
  auto type = cast<RankedTensorType>(op.getType());
  call.results[0] = call.operand(0).reshaped(type.getShape());
  return success();
}

LogicalResult evaluateTranspose(nn::TransposeOp op, Call &call) {
  SmallVector<int64_t> from = call.operand(0).strides(), strides;
  for (int64_t d : op.getPerm())
    strides.push_back(from[d]);
  readStrided(call, strides, 0);
  return success();
}

LogicalResult evaluateBroadcast(nn::BroadcastOp op, Call &call) {
  const Tensor &input = call.operand(0);
  SmallVector<int64_t> from = input.strides();
  SmallVector<int64_t> strides(call.result().rank(), 0);
  for (auto [d, to] : llvm::enumerate(op.getDims()))
    if (input.dim(d) != 1)
      strides[to] = from[d];
  readStrided(call, strides, 0);
  return success();
}

LogicalResult evaluateSlice(nn::SliceOp op, Call &call) {
  SmallVector<int64_t> strides = call.operand(0).strides();
  int64_t base = 0;
  for (auto [d, stride] : llvm::enumerate(strides)) {
    base += op.getStarts()[d] * stride;
    stride *= op.getStrides()[d];
  }
  readStrided(call, strides, base);
  return success();
}

LogicalResult evaluatePad(nn::PadOp op, Call &call) {
  const Tensor &input = call.operand(0);
  Tensor &result = call.result();
  result.fill(op.getValue().convertToDouble());
  SmallVector<int64_t> strides = result.strides();
  int64_t base = 0;
  for (auto [d, stride] : llvm::enumerate(strides)) {
    base += op.getLow()[d] * stride;
    stride *= op.getInterior()[d] + 1;
  }
  const Cell *from = input.cells();
  Cell *to = result.mutableCells();
  walk(input.shape(), strides, base, [&](int64_t i, int64_t offset) { to[offset] = from[i]; });
  return success();
}

LogicalResult evaluateConcat(nn::ConcatOp op, Call &call) {
  Tensor &result = call.result();
  SmallVector<int64_t> strides = result.strides();
  Cell *to = result.mutableCells();
  int64_t dim = op.getDim(), base = 0;
  for (const Tensor &input : call.operands) {
    const Cell *from = input.cells();
    walk(input.shape(), strides, base, [&](int64_t i, int64_t offset) { to[offset] = from[i]; });
    base += input.dim(dim) * strides[dim];
  }
  return success();
}

int64_t product(ArrayRef<int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

LogicalResult outOfRange(Operation *op, int64_t index, int64_t size) {
  return op->emitError("reads index ") << index << " of " << size;
}

LogicalResult evaluateGather(nn::GatherOp op, Call &call) {
  const Tensor &input = call.operand(0), &indices = call.operand(1);
  int64_t dim = op.getDim(), size = input.dim(dim);
  int64_t outer = product(input.shape().take_front(dim));
  int64_t inner = product(input.shape().drop_front(dim + 1));
  const Cell *from = input.cells();
  Cell *to = call.result().mutableCells();
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < indices.size(); ++i) {
      int64_t index = indices.ints()[i];
      if (index < 0 || index >= size)
        return outOfRange(op, index, size);
      to = std::copy_n(from + (o * size + index) * inner, inner, to);
    }
  return success();
}

LogicalResult evaluateGatherNd(nn::GatherNdOp op, Call &call) {
  const Tensor &input = call.operand(0), &indices = call.operand(1);
  int64_t batchDims = op.getBatchDims();
  int64_t tuple = indices.dim(indices.rank() - 1);
  int64_t batches = product(input.shape().take_front(batchDims));
  ArrayRef<int64_t> looked = input.shape().slice(batchDims, tuple);
  int64_t inner = product(input.shape().drop_front(batchDims + tuple));
  int64_t perBatch = product(input.shape().drop_front(batchDims));
  int64_t tuples = product(indices.shape().drop_back().drop_front(batchDims));
  const Cell *from = input.cells();
  Cell *to = call.result().mutableCells();
  Cell nothing = 0; // for indices out of range; NaN as the bits of a double for floats
  if (input.isFloat())
    nothing = llvm::bit_cast<uint64_t>(std::numeric_limits<double>::quiet_NaN());
  const int64_t *index = indices.ints();
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t t = 0; t < tuples; ++t, index += tuple) {
      int64_t row = 0;
      bool inside = true;
      for (int64_t k = 0; k < tuple; ++k) {
        inside &= index[k] >= 0 && index[k] < looked[k];
        row = row * looked[k] + (inside ? index[k] : 0);
      }
      to = inside ? std::copy_n(from + b * perBatch + row * inner, inner, to)
                  : std::fill_n(to, inner, nothing);
    }
  return success();
}

LogicalResult evaluateGatherNdGrad(nn::GatherNdGradOp op, Call &call) {
  const Tensor &indices = call.operand(0);
  Tensor &result = call.result();
  int64_t batchDims = op.getBatchDims();
  int64_t tuple = indices.dim(indices.rank() - 1);
  int64_t batches = product(result.shape().take_front(batchDims));
  SmallVector<int64_t> looked(result.shape().slice(batchDims, tuple));
  int64_t inner = product(result.shape().drop_front(batchDims + tuple));
  int64_t perBatch = product(result.shape().drop_front(batchDims));
  int64_t tuples = product(indices.shape().drop_back().drop_front(batchDims));
  result.fill(0);
  const double *from = call.operand(1).floats();
  double *to = result.mutableFloats();
  const int64_t *index = indices.ints();
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t t = 0; t < tuples; ++t, index += tuple, from += inner) {
      int64_t row = 0;
      bool inside = true;
      for (int64_t k = 0; k < tuple; ++k) {
        inside &= index[k] >= 0 && index[k] < looked[k];
        row = row * looked[k] + (inside ? index[k] : 0);
      }
      for (int64_t i = 0; inside && i < inner; ++i)
        to[b * perBatch + row * inner + i] += from[i];
    }
  return success();
}

template <typename T>
void runningSum(const T *from, T *to, int64_t outer, int64_t size, int64_t inner, bool exclusive,
                bool reverse) {
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      T sum = 0;
      for (int64_t k = 0; k < size; ++k) {
        int64_t at = (o * size + (reverse ? size - 1 - k : k)) * inner + i;
        T next = sum + from[at];
        to[at] = exclusive ? sum : next;
        sum = next;
      }
    }
}

LogicalResult evaluateCumsum(nn::CumsumOp op, Call &call) {
  const Tensor &input = call.operand(0);
  int64_t dim = op.getDim();
  int64_t outer = product(input.shape().take_front(dim));
  int64_t inner = product(input.shape().drop_front(dim + 1));
  if (input.isFloat())
    runningSum(input.floats(), call.result().mutableFloats(), outer, input.dim(dim), inner,
               op.getExclusive(), op.getReverse());
  else
    runningSum(reinterpret_cast<const uint64_t *>(input.ints()),
               reinterpret_cast<uint64_t *>(call.result().mutableInts()), outer, input.dim(dim),
               inner, op.getExclusive(), op.getReverse());
  return success();
}

template <typename T> T reduceStep(nn::ReduceKind kind, T a, T b) {
  if constexpr (std::is_same_v<T, double>)
    if ((kind == nn::ReduceKind::Max || kind == nn::ReduceKind::Min) &&
        (std::isnan(a) || std::isnan(b)))
      return NAN;
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, uint64_t>;
  switch (kind) {
  case nn::ReduceKind::Sum:
    return static_cast<T>(Wide(a) + Wide(b));
  case nn::ReduceKind::Prod:
    return static_cast<T>(Wide(a) * Wide(b));
  case nn::ReduceKind::Max:
    return std::max(a, b);
  case nn::ReduceKind::Min:
    return std::min(a, b);
  }
  return a;
}

template <typename T> T reduceStart(nn::ReduceKind kind) {
  using Limits = std::numeric_limits<T>;
  switch (kind) {
  case nn::ReduceKind::Sum:
    return 0;
  case nn::ReduceKind::Prod:
    return 1;
  case nn::ReduceKind::Max:
    return Limits::has_infinity ? -Limits::infinity() : Limits::min();
  case nn::ReduceKind::Min:
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  return 0;
}

LogicalResult evaluateReduce(nn::ReduceOp op, Call &call) {
  const Tensor &input = call.operand(0);
  Tensor &result = call.result();
  nn::ReduceKind kind = op.getKind();
  SmallVector<int64_t> strides(input.rank(), 0);
  SmallVector<int64_t> kept = result.strides();
  for (int64_t d = 0, next = 0; d < input.rank(); ++d)
    if (!llvm::is_contained(op.getDims(), d))
      strides[d] = kept[next++];
  auto reduce = [&](auto *from, auto *to) {
    using T = std::remove_reference_t<decltype(*to)>;
    std::fill_n(to, result.size(), reduceStart<T>(kind));
    walk(input.shape(), strides, 0,
         [&](int64_t i, int64_t offset) { to[offset] = reduceStep<T>(kind, to[offset], from[i]); });
  };
  if (input.isFloat())
    reduce(input.floats(), result.mutableFloats());
  else
    reduce(input.ints(), result.mutableInts());
  return success();
}

} // namespace

void registerData(Registry &registry) {
  registry.add<nn::ConstantOp>(evaluateConstant);
  registry.add<nn::IotaOp>(evaluateIota);
  registry.add<nn::SeedOp>(evaluateSeed);
  registry.add<nn::ReshapeOp>(evaluateReshape);
  registry.add<nn::TransposeOp>(evaluateTranspose);
  registry.add<nn::BroadcastOp>(evaluateBroadcast);
  registry.add<nn::SliceOp>(evaluateSlice);
  registry.add<nn::PadOp>(evaluatePad);
  registry.add<nn::ConcatOp>(evaluateConcat);
  registry.add<nn::GatherOp>(evaluateGather);
  registry.add<nn::GatherNdOp>(evaluateGatherNd);
  registry.add<nn::GatherNdGradOp>(evaluateGatherNdGrad);
  registry.add<nn::CumsumOp>(evaluateCumsum);
  registry.add<nn::ReduceOp>(evaluateReduce);
}

} // namespace shale::interp
