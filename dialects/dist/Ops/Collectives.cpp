//===- Collectives.cpp - Collectives that change a layout -----------------===//
#include "dialects/dist/Dist.h"
#include "dialects/interfaces/RuleBuilder.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace shale;
using namespace shale::dist;

/// Checks that `result` is `input` with the sizes of `scaled` dimensions
/// multiplied or divided by the size of `axis`.
static LogicalResult verifyExchange(Operation *op, Type input, Type result, StringRef axis,
                                    ArrayRef<std::pair<int64_t, bool>> scaled) {
  auto from = cast<RankedTensorType>(input), to = cast<RankedTensorType>(result);
  for (auto [dim, multiply] : scaled)
    if (dim < 0 || dim >= from.getRank()) // *_c1
      return op->emitOpError("has no dimension ") << dim;
  MeshOp mesh = getMesh(op);
  if (!mesh)
    return op->emitOpError("is in a module without a mesh"); // *_c1
  int64_t size = mesh.getSize(axis);
  if (size == 0) // *_c1
    return op->emitOpError("the mesh has no axis '") << axis << "'";
  SmallVector<int64_t> shape(from.getShape());
  for (auto [dim, multiply] : scaled) {
    if (!multiply && shape[dim] % size != 0) // *_c2
      return op->emitOpError("dimension ")
             << dim << " of " << input << " does not divide over " << size << " ranks";
    if (multiply ? llvm::MulOverflow(shape[dim], size, shape[dim]) : false)
      return op->emitOpError("the result is too large");
    if (!multiply)
      shape[dim] /= size;
  }
  if (to != RankedTensorType::get(shape, from.getElementType())) // *_c2
    return op->emitOpError("expected the result type ")
           << RankedTensorType::get(shape, from.getElementType()) << ", got " << result;
  return success();
}

/// Returns the operand if there is one rank along the axis and the module does not keep its
/// collectives, else null.
static OpFoldResult foldSingleton(Operation *op, StringRef axis, Value input) {
  MeshOp mesh = getMesh(op);
  if (!mesh || mesh.getSize(axis) != 1 || mesh.splits(axis) ||
      op->getResult(0).getType() != input.getType())
    return {};
  return input;
}

/// Checks what a quantized op sends, or `parts` equal parts of it (all_gather_c3,
/// reduce_scatter_c3, quantization_error_c1).
static LogicalResult verifyBlocks(Operation *op, Type type, int64_t parts) {
  auto tensor = cast<RankedTensorType>(type);
  if (tensor.getRank() != 1 || !tensor.getElementType().isF32() || parts < 1 ||
      tensor.getDimSize(0) % parts != 0 || tensor.getDimSize(0) / parts % kQuantizedBlock != 0)
    return op->emitOpError("quantizes 1-D f32 in blocks of ")
           << kQuantizedBlock << " elements; got " << type << " for " << parts << " ranks";
  return success();
}

//===- AllGather ----------------------------------------------------------===//

LogicalResult AllGatherOp::verify() {
  if (getQuantized() && failed(verifyBlocks(*this, getInput().getType(), 1)))
    return failure();
  return verifyExchange(*this, getInput().getType(), getResult().getType(), getAxis(),
                        {{getDim(), true}});
}
OpFoldResult AllGatherOp::fold(FoldAdaptor) {
  return getQuantized() ? OpFoldResult() : foldSingleton(*this, getAxis(), getInput());
}
StringRef AllGatherOp::getCollectiveAxis() { return getAxis(); }
CollectiveKind AllGatherOp::getCollectiveKind() { return CollectiveKind::AllGather; }

/// The gathered dimension must be whole on both sides. Others are as in the operand.
ShardingRule AllGatherOp::getShardingRule() {
  RuleBuilder rule;
  size_t gathered = getDim();
  TensorFactors from;
  for (auto [dim, size] : llvm::enumerate(cast<RankedTensorType>(getInput().getType()).getShape()))
    from.push_back(rule.dim(size, dim == gathered ? FactorKind::Whole : FactorKind::Parallel));
  TensorFactors to = from;
  to[gathered] =
      rule.dim(cast<RankedTensorType>(getType()).getDimSize(gathered), FactorKind::Whole);
  return rule.operand(from).result(to).take();
}

//===- ReduceScatter ------------------------------------------------------===//

LogicalResult ReduceScatterOp::verify() {
  if (getQuantized() && getReduction() != Reduction::Sum)
    return emitOpError("quantizes the terms of sums only"); // reduce_scatter_c3
  if (getQuantized() &&
      failed(verifyBlocks(*this, getInput().getType(), getAxisSize(*this, getAxis()))))
    return failure();
  return verifyExchange(*this, getInput().getType(), getResult().getType(), getAxis(),
                        {{getDim(), false}});
}
OpFoldResult ReduceScatterOp::fold(FoldAdaptor) {
  return getQuantized() ? OpFoldResult() : foldSingleton(*this, getAxis(), getInput());
}
StringRef ReduceScatterOp::getCollectiveAxis() { return getAxis(); }
CollectiveKind ReduceScatterOp::getCollectiveKind() { return CollectiveKind::ReduceScatter; }

//===- AllReduce ----------------------------------------------------------===//

LogicalResult AllReduceOp::verify() {
  return verifyExchange(*this, getInput().getType(), getResult().getType(), getAxis(), {});
}
OpFoldResult AllReduceOp::fold(FoldAdaptor) { return foldSingleton(*this, getAxis(), getInput()); }
StringRef AllReduceOp::getCollectiveAxis() { return getAxis(); }
CollectiveKind AllReduceOp::getCollectiveKind() { return CollectiveKind::AllReduce; }

//===- AllToAll -----------------------------------------------------------===//

LogicalResult AllToAllOp::verify() {
  if (getSplit() == getConcat()) // all_to_all_c1
    return emitOpError("split and concat must be different dimensions");
  return verifyExchange(*this, getInput().getType(), getResult().getType(), getAxis(),
                        {{getSplit(), false}, {getConcat(), true}});
}
OpFoldResult AllToAllOp::fold(FoldAdaptor) { return foldSingleton(*this, getAxis(), getInput()); }
StringRef AllToAllOp::getCollectiveAxis() { return getAxis(); }
CollectiveKind AllToAllOp::getCollectiveKind() { return CollectiveKind::AllToAll; }

//===- QuantizationError --------------------------------------------------===//

LogicalResult QuantizationErrorOp::verify() { return verifyBlocks(*this, getInput().getType(), 1); }

//===- Slice --------------------------------------------------------------===//

LogicalResult dist::SliceOp::verify() {
  return verifyExchange(*this, getInput().getType(), getResult().getType(), getAxis(),
                        {{getDim(), false}});
}
bool dist::SliceOp::isViewOf(unsigned) { return getDim() == 0; }
ViewPlace dist::SliceOp::getViewPlace(unsigned) { return {0, 0, getAxis()}; }
OpFoldResult dist::SliceOp::fold(FoldAdaptor) {
  return foldSingleton(*this, getAxis(), getInput());
}
