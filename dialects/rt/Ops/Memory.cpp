//===- Memory.cpp - Buffers, views and copies -----------------------------===//
#include "dialects/rt/RT.h"

using namespace mlir;
using namespace shale::rt;

static LogicalResult verifyOffset(Operation *op, int64_t offset) {
  if (offset < 0 || offset % kAlignment)
    return op->emitOpError() << "offset must be a multiple of " << kAlignment << "; got " << offset;
  return success();
}

LogicalResult SlotOp::verify() {
  if (failed(verifyOffset(*this, getOffset()))) // slot_c1
    return failure();
  auto tensor = dyn_cast<RankedTensorType>(getType());
  if (!tensor || !tensor.hasStaticShape() || shale::nn::tensorBytes(tensor) < 0)
    return emitOpError() << "a buffer cannot hold " << getType();
  return success();
}

/// Checks that a state or arena buffer ends within its block (buffer_c2).
static LogicalResult verifyWithinBlock(BufferOp op) {
  auto module = op->getParentOfType<ModuleOp>();
  StringRef name = blockBytesAttr(op.getSpace(), op.getMemory());
  auto bytes = module ? module->getAttrOfType<IntegerAttr>(name) : IntegerAttr();
  int64_t size = bufferBytes(op.getType());
  if (!bytes)
    return success();
  if (size < 0 || op.getOffset() > bytes.getInt() - size)
    return op.emitOpError() << "ends beyond the block's " << bytes.getInt() << " bytes";
  return success();
}

/// Checks the index of an input, hyper or metric buffer (buffer_c3, buffer_c5).
static LogicalResult verifyIndexed(BufferOp op, int64_t index) {
  auto function = op->getParentOfType<FuncOp>();
  if (!function)
    return success();
  size_t count = op.getSpace() == Space::Input   ? function.getInputs().size()
                 : op.getSpace() == Space::Hyper ? function.getHyper().size()
                                                 : function.getMetrics().size();
  if (index < 0 || size_t(index) >= count)
    return op.emitOpError() << "index " << index << " is not one of the function's " << count;
  if (op.getSpace() == Space::Input) {
    auto type = cast<DictionaryAttr>(function.getInputs()[index]).getAs<TypeAttr>("type");
    if (type && type.getValue() != tensorType(op.getType()))
      return op.emitOpError() << "must have the input's type " << type.getValue();
  } else if (op.getType().getRank() != 0 || !op.getType().getElementType().isF32()) {
    return op.emitOpError() << "must be memref<f32>; got " << op.getType();
  }
  return success();
}

LogicalResult BufferOp::verify() {
  if (failed(verifyOffset(*this, getOffset()))) // buffer_c1
    return failure();
  Space space = getSpace();
  bool indexed = space == Space::Input || space == Space::Hyper || space == Space::Metric;
  bool named = space == Space::Constant || space == Space::State;
  if (indexed != getIndex().has_value()) // buffer_c3
    return emitOpError() << (indexed ? "needs an index" : "has no index");
  if (named != bool(getSymbolAttr())) // buffer_c4
    return emitOpError() << (named ? "needs a symbol" : "has no symbol");
  if (getMemory() == shale::mem::Memory::Host && space != Space::State &&
      space != Space::Arena) // buffer_c6
    return emitOpError("cannot be in host memory");
  if (indexed)
    return verifyIndexed(*this, getIndex().value_or(-1));
  if (space == Space::State || space == Space::Arena)
    return verifyWithinBlock(*this);
  return success();
}

LogicalResult ViewOp::verify() {
  int64_t source = bufferBytes(getSource().getType()), result = bufferBytes(getType());
  if (getOffset() < 0 || result < 0 || source < 0 || getOffset() > source - result) // view_c1
    return emitOpError() << "needs " << result << " bytes at " << getOffset() << " of " << source;
  return success();
}

LogicalResult ShardOp::verify() {
  MemRefType source = getSource().getType(), result = getType();
  if (source.getElementType() != result.getElementType() || result.getNumElements() == 0 ||
      source.getNumElements() % result.getNumElements()) // shard_c1
    return emitOpError()
           << "expected a source with a whole multiple of the result's elements, of the "
              "same type; got "
           << source << " and " << result;
  return success();
}

LogicalResult CopyOp::verify() {
  MemRefType source = getSource().getType(), target = getTarget().getType();
  if (source.getElementType() != target.getElementType() ||
      source.getNumElements() != target.getNumElements()) // copy_c1
    return emitOpError() << "cannot copy " << source << " to " << target;
  return success();
}

LogicalResult TransferOp::verify() {
  MemRefType source = getSource().getType(), target = getTarget().getType();
  if (source.getElementType() != target.getElementType() ||
      source.getNumElements() != target.getNumElements()) // transfer_c1
    return emitOpError() << "cannot copy " << source << " to " << target;
  BufferOp from = allocationOf(getSource()), to = allocationOf(getTarget());
  if (from && to && from.getMemory() == to.getMemory()) // transfer_c1
    return emitOpError("must copy between the device's memory and the host's");
  return success();
}
