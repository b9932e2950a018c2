//===- Collectives.cpp - Collectives between virtual ranks ----------------===//
#include "dialects/dist/Dist.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;

namespace shale::interp {

namespace {

/// Returns the groups of ranks that differ only in their coordinate on an axis, one of the mesh or
/// a joint one, in the order of this coordinate.
FailureOr<std::vector<std::vector<int64_t>>> peersAlong(Operation *op, StringRef axis,
                                                        int64_t ranks) {
  dist::MeshOp mesh = dist::getMesh(op);
  if (!mesh || mesh.getSize(axis) == 0)
    return op->emitError("there is no mesh with axis '") << axis << "'";
  if (mesh.getRankCount() != ranks)
    return op->emitError("the mesh has ")
           << mesh.getRankCount() << " ranks, the interpreter runs " << ranks;
  SmallVector<StringRef, 2> members = dist::MeshOp::membersOf(axis);
  std::map<std::vector<int64_t>, std::vector<int64_t>> byOthers;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::vector<int64_t> key;
    for (Attribute other : mesh.getAxes())
      if (!llvm::is_contained(members, cast<StringAttr>(other).getValue()))
        key.push_back(mesh.getCoordinate(rank, cast<StringAttr>(other)));
    byOthers[key].push_back(rank); // ranks ascend, so coordinates ascend, too
  }
  std::vector<std::vector<int64_t>> peers;
  for (auto &[key, list] : byOthers)
    peers.push_back(list);
  return peers;
}

/// Concatenates pieces along `dim`.
Tensor concat(ArrayRef<Tensor> pieces, int64_t dim) {
  SmallVector<int64_t> shape(pieces[0].shape());
  shape[dim] = 0;
  for (const Tensor &piece : pieces)
    shape[dim] += piece.dim(dim);
  Tensor result(pieces[0].element(), shape);
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < dim; ++i)
    outer *= shape[i];
  for (size_t i = dim + 1; i < shape.size(); ++i)
    inner *= shape[i];
  Cell *out = result.mutableCells();
  for (int64_t o = 0; o < outer; ++o)
    for (const Tensor &piece : pieces) {
      int64_t length = piece.dim(dim) * inner;
      const Cell *from = piece.cells() + o * length;
      out = std::copy(from, from + length, out);
    }
  return result;
}

/// Reduces the parts by sum or maximum, in rank order.
Tensor reduce(ArrayRef<Tensor> parts, dist::Reduction kind, bool asF64) {
  Tensor total = parts[0];
  for (const Tensor &part : parts.drop_front()) {
    for (int64_t i = 0; i < total.size(); ++i) {
      if (total.isFloat()) {
        double &a = total.mutableFloats()[i];
        double b = part.floats()[i];
        a = kind == dist::Reduction::Sum ? a + b
            : a != a || b != b           ? a + b // a NaN stays one
                                         : std::max(a, b);
      } else {
        int64_t &a = total.mutableInts()[i];
        int64_t b = part.ints()[i];
        a = kind == dist::Reduction::Sum ? static_cast<int64_t>(uint64_t(a) + uint64_t(b))
                                         : std::max(a, b);
      }
    }
    if (!(asF64 && total.isFloat()))
      total.roundToElement();
  }
  return total;
}

/// Calls `exchange(operands, i)` with the operands of each group of peers. It
/// returns the result of peer i.
template <typename Fn>
LogicalResult meet(MutableArrayRef<Call> calls, StringRef axis, Fn exchange) {
  auto peers = peersAlong(calls[0].op, axis, calls.size());
  if (failed(peers))
    return failure();
  for (const std::vector<int64_t> &ranks : *peers) {
    SmallVector<Tensor> operands;
    for (int64_t rank : ranks)
      operands.push_back(calls[rank].operand(0));
    for (auto [i, rank] : llvm::enumerate(ranks))
      calls[rank].results[0] = exchange(ArrayRef<Tensor>(operands), i);
  }
  return success();
}

Tensor sliceOf(const Tensor &tensor, int64_t dim, int64_t index, int64_t count) {
  int64_t length = tensor.dim(dim) / count;
  return tensor.slice(dim, index * length, length);
}

/// Returns the same elements with the element type of the result.
Tensor converted(const Tensor &tensor, Type resultType) {
  Element element = *elementOf(cast<RankedTensorType>(resultType).getElementType());
  if (element == tensor.element())
    return tensor;
  Tensor result(element, tensor.shape());
  for (int64_t i = 0; i < tensor.size(); ++i)
    result.setNumber(i, tensor.number(i));
  return result;
}

/// Returns what ranks compute with after a collective that sends `tensor` in an encoding.
Tensor quantized(const Tensor &tensor, dist::Encoding encoding, bool asF64) {
  const int64_t block = dist::blockOf(encoding).elements;
  auto rounded = [&](double x) { return asF64 ? x : static_cast<float>(x); };
  Tensor result(Element::F32, tensor.shape());
  for (int64_t begin = 0; begin < tensor.size(); begin += block) {
    int64_t end = std::min(begin + block, tensor.size());
    double largest = 0;
    bool finite = true;
    for (int64_t i = begin; i < end; ++i) {
      finite &= std::isfinite(tensor.number(i));
      largest = std::max(largest, std::fabs(tensor.number(i)));
    }
    double scale = rounded(largest / 127), factor = rounded(1 / scale);
    for (int64_t i = begin; i < end; ++i) {
      double integer = std::floor(rounded(rounded(tensor.number(i) * factor) + 0.5));
      double sent = static_cast<float>(scale); // in 32 bits
      bool vanishes = scale < std::numeric_limits<float>::min();
      result.setNumber(i, !finite ? NAN : vanishes ? 0 : rounded(integer * sent));
    }
  }
  return result;
}

Tensor quantizationError(const Tensor &tensor, dist::Encoding encoding, bool asF64) {
  Tensor result = quantized(tensor, encoding, asF64);
  for (int64_t i = 0; i < result.size(); ++i) {
    double sent = result.number(i), lacks = tensor.number(i) - sent;
    result.setNumber(i, !std::isfinite(sent) ? 0 : asF64 ? lacks : static_cast<float>(lacks));
  }
  return result;
}

LogicalResult allGather(MutableArrayRef<Call> calls) {
  auto op = cast<dist::AllGatherOp>(calls[0].op);
  bool asF64 = calls[0].interpreter.options.asF64;
  return meet(calls, op.getAxis(), [&](ArrayRef<Tensor> parts, int64_t) {
    Tensor whole = concat(parts, op.getDim());
    return op.getEncodingAttr() && !op.getSentEncoding()
               ? quantized(whole, *op.getEncoding(), asF64)
               : whole;
  });
}

LogicalResult unitGather(MutableArrayRef<Call> calls) {
  auto op = cast<dist::UnitGatherOp>(calls[0].op);
  bool asF64 = calls[0].interpreter.options.asF64;
  if (op.getEncodingAttr() && !op.gathersWords())
    return meet(calls, op.getAxis(), [&](ArrayRef<Tensor> parts, int64_t) {
      return converted(quantized(concat(parts, 0), *op.getEncoding(), asF64),
                       op.getResult().getType());
    });
  return meet(calls, op.getAxis(), [&](ArrayRef<Tensor> parts, int64_t) {
    return converted(concat(parts, 0), op.getResult().getType());
  });
}

LogicalResult reduceScatter(MutableArrayRef<Call> calls) {
  auto op = cast<dist::ReduceScatterOp>(calls[0].op);
  bool asF64 = calls[0].interpreter.options.asF64;
  return meet(calls, op.getAxis(), [&](ArrayRef<Tensor> parts, int64_t own) {
    SmallVector<Tensor> sent;
    for (const Tensor &part : parts)
      sent.push_back(op.getEncodingAttr() ? quantized(part, *op.getEncoding(), asF64) : part);
    parts = sent;
    return sliceOf(reduce(parts, op.getReduction(), asF64), op.getDim(), own, parts.size());
  });
}

LogicalResult allReduce(MutableArrayRef<Call> calls) {
  auto op = cast<dist::AllReduceOp>(calls[0].op);
  bool asF64 = calls[0].interpreter.options.asF64;
  return meet(calls, op.getAxis(), [&](ArrayRef<Tensor> parts, int64_t) {
    return reduce(parts, op.getReduction(), asF64);
  });
}

LogicalResult allToAll(MutableArrayRef<Call> calls) {
  auto op = cast<dist::AllToAllOp>(calls[0].op);
  return meet(calls, op.getAxis(), [&](ArrayRef<Tensor> parts, int64_t own) {
    SmallVector<Tensor> received;
    for (const Tensor &part : parts)
      received.push_back(sliceOf(part, op.getSplit(), own, parts.size()));
    return concat(received, op.getConcat());
  });
}

LogicalResult slice(MutableArrayRef<Call> calls) {
  auto op = cast<dist::SliceOp>(calls[0].op);
  return meet(calls, op.getAxis(), [&](ArrayRef<Tensor> parts, int64_t own) {
    return sliceOf(parts[own], op.getDim(), own, parts.size());
  });
}

LogicalResult notSent(dist::QuantizationErrorOp op, Call &call) {
  call.results[0] =
      quantizationError(call.operand(0), op.getEncoding(), call.interpreter.options.asF64);
  return success();
}

LogicalResult coordinate(dist::CoordinateOp op, Call &call) {
  dist::MeshOp mesh = dist::getMesh(op);
  if (!mesh)
    return op.emitError("there is no mesh");
  call.result().setNumber(0, mesh.getCoordinate(call.rank, op.getAxis()));
  return success();
}

/// Evaluates the body immediately; its results are not visible before the wait.
LogicalResult start(MutableArrayRef<Call> calls) {
  auto op = cast<dist::StartOp>(calls[0].op);
  RankValues arguments;
  for (Call &call : calls)
    arguments.push_back(call.operands);
  auto results = calls[0].interpreter.runBlock(op.getBody().front(), arguments);
  if (failed(results))
    return failure();
  for (auto [call, values] : llvm::zip(calls, *results))
    call.results[0] = Tensor::token(values);
  return success();
}

LogicalResult wait(dist::WaitOp op, Call &call) {
  if (!call.operand(0).isToken())
    return op.emitError("waits for what was not started");
  call.results[0] = call.operand(0).pending()[0];
  return success();
}

} // namespace

void registerCollectives(Registry &registry) {
  registry.addLockstep<dist::AllGatherOp>(allGather);
  registry.addLockstep<dist::UnitGatherOp>(unitGather);
  registry.addLockstep<dist::ReduceScatterOp>(reduceScatter);
  registry.addLockstep<dist::AllReduceOp>(allReduce);
  registry.addLockstep<dist::AllToAllOp>(allToAll);
  registry.addLockstep<dist::SliceOp>(slice);
  registry.add<dist::QuantizationErrorOp>(notSent);
  registry.add<dist::CoordinateOp>(coordinate);
  registry.addLockstep<dist::StartOp>(start);
  registry.add<dist::WaitOp>(wait);
}

} // namespace shale::interp
