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

/// Returns the encoding of an op that sends its words.
static Attribute encodingOfWords(Value sent, EncodingAttr encoding) {
  return getElementTypeOrSelf(sent.getType()).isInteger(32) ? encoding : EncodingAttr();
}

/// Checks what an op sends in an encoding, or `parts` equal parts of it: blocks of elements or of
/// words (all_gather_c3, reduce_scatter_c3, quantization_error_c1).
static LogicalResult verifyBlocks(Operation *op, Encoding encoding, Type type, int64_t parts,
                                  bool mayBeWords) {
  auto tensor = cast<RankedTensorType>(type);
  bool words = mayBeWords && tensor.getElementType().isInteger(32);
  EncodedBlock size = blockOf(encoding);
  int64_t block = words ? size.words : size.elements;
  if (tensor.getRank() != 1 || !(words || tensor.getElementType().isF32()) || parts < 1 ||
      tensor.getDimSize(0) % parts != 0 || tensor.getDimSize(0) / parts % block != 0)
    return op->emitOpError("encodes 1-D f32 in blocks of ")
           << size.elements << " elements; got " << type << " for " << parts << " ranks";
  return success();
}

//===- AllGather ----------------------------------------------------------===//

LogicalResult AllGatherOp::verify() {
  if (getEncoding() &&
      failed(verifyBlocks(*this, *getEncoding(), getInput().getType(), 1, /*mayBeWords=*/true)))
    return failure();
  return verifyExchange(*this, getInput().getType(), getResult().getType(), getAxis(),
                        {{getDim(), true}});
}
OpFoldResult AllGatherOp::fold(FoldAdaptor) {
  return getEncodingAttr() ? OpFoldResult() : foldSingleton(*this, getAxis(), getInput());
}
StringRef AllGatherOp::getCollectiveAxis() { return getAxis(); }
CollectiveKind AllGatherOp::getCollectiveKind() { return CollectiveKind::AllGather; }
Attribute AllGatherOp::getSentEncoding() { return encodingOfWords(getInput(), getEncodingAttr()); }

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
  if (getEncodingAttr() && getReduction() != Reduction::Sum)
    return emitOpError("encodes the terms of sums only"); // reduce_scatter_c3
  if (getEncoding() && failed(verifyBlocks(*this, *getEncoding(), getInput().getType(),
                                           getAxisSize(*this, getAxis()), /*mayBeWords=*/false)))
    return failure();
  return verifyExchange(*this, getInput().getType(), getResult().getType(), getAxis(),
                        {{getDim(), false}});
}
OpFoldResult ReduceScatterOp::fold(FoldAdaptor) {
  return getEncodingAttr() ? OpFoldResult() : foldSingleton(*this, getAxis(), getInput());
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
  if (getEncodingAttr() && !getSentEncoding()) // all_to_all_c3
    return emitOpError("with an encoding, expected words of i32, got ") << getInput().getType();
  return verifyExchange(*this, getInput().getType(), getResult().getType(), getAxis(),
                        {{getSplit(), false}, {getConcat(), true}});
}
OpFoldResult AllToAllOp::fold(FoldAdaptor) { return foldSingleton(*this, getAxis(), getInput()); }
StringRef AllToAllOp::getCollectiveAxis() { return getAxis(); }
CollectiveKind AllToAllOp::getCollectiveKind() { return CollectiveKind::AllToAll; }
Attribute AllToAllOp::getSentEncoding() { return encodingOfWords(getInput(), getEncodingAttr()); }

Operation *dist::createCollective(OpBuilder &builder, Location loc, CollectiveKind kind,
                                  RankedTensorType type, Value input, StringAttr axis) {
  switch (kind) {
  case CollectiveKind::AllGather:
    return AllGatherOp::create(builder, loc, type, input, axis, 0);
  case CollectiveKind::ReduceScatter:
    return ReduceScatterOp::create(builder, loc, type, Reduction::Sum, input, axis, 0);
  case CollectiveKind::AllReduce:
    return AllReduceOp::create(builder, loc, Reduction::Sum, input, axis);
  case CollectiveKind::AllToAll:
    return AllToAllOp::create(builder, loc, type, input, axis, 0, 1);
  }
  llvm_unreachable("a kind of collective without an op");
}

//===- QuantizationError --------------------------------------------------===//

LogicalResult QuantizationErrorOp::verify() {
  return verifyBlocks(*this, getEncoding(), getInput().getType(), 1, /*mayBeWords=*/false);
}

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
