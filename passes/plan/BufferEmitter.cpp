//===- BufferEmitter.cpp - Emits buffers for placed values ----------------===//
#include "passes/plan/BufferEmitter.h"
#include "dialects/nn/Ops/Constant.h"

using namespace mlir;
using namespace shale;

FlatSymbolRefAttr BufferEmitter::constantSymbol(nn::ConstantOp constant) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(program);
  auto name = builder.getStringAttr("constant_" + Twine(constants++));
  rt::ConstantOp::create(builder, constant.getLoc(), name, constant.getValue());
  return FlatSymbolRefAttr::get(name);
}

/// Creates a buffer at the top of the function. Buffers are in the order of first use.
Value BufferEmitter::createBuffer(Location loc, MemRefType type, rt::Space space, int64_t offset,
                                  IntegerAttr index, FlatSymbolRefAttr symbol,
                                  rt::Category category, StringRef name, int64_t padding,
                                  mem::Memory memory) {
  OpBuilder::InsertionGuard guard(builder);
  if (lastBuffer)
    builder.setInsertionPointAfter(lastBuffer);
  else
    builder.setInsertionPointToStart(&program.getBody().front());
  auto buffer = rt::BufferOp::create(builder, loc, type, space, offset, index, symbol, category,
                                     builder.getStringAttr(name), padding, memory);
  lastBuffer = buffer;
  return buffer;
}

Value BufferEmitter::allocationBuffer(int64_t id) {
  Value &buffer = buffers[id];
  if (buffer)
    return buffer;
  const Allocation &allocation = placement.allocation(id);
  Location loc = allocation.loc.value_or(program.getLoc());
  FlatSymbolRefAttr symbol;
  IntegerAttr index;
  if (allocation.space == rt::Space::Constant)
    symbol = constantSymbol(placement.valuesIn(id).front().getDefiningOp<nn::ConstantOp>());
  else if (allocation.symbol)
    symbol = FlatSymbolRefAttr::get(allocation.symbol);
  if (allocation.index >= 0)
    index = builder.getI64IntegerAttr(allocation.index);
  int64_t offset = allocation.space == rt::Space::Arena ? offsets[id] : 0;
  rt::Category category = allocation.category;
  if (allocation.space == rt::Space::State) {
    auto slot = module.lookupSymbol<rt::SlotOp>(rt::slotName(allocation.symbol.getValue()));
    offset = slot.getOffset();
    category = slot.getCategory();
    symbol = FlatSymbolRefAttr::get(slot.getSymNameAttr());
  }
  return buffer =
             createBuffer(loc, rt::bufferType(allocation.type), allocation.space, offset, index,
                          symbol, category, allocation.name, allocation.padding, allocation.memory);
}

Value BufferEmitter::createMetric(Location loc, int64_t index, StringRef name) {
  return createBuffer(loc, MemRefType::get({}, builder.getF32Type()), rt::Space::Metric, 0,
                      builder.getI64IntegerAttr(index), {}, rt::Category::Fixed, name);
}

Value BufferEmitter::view(Value source, int64_t offset, MemRefType type, Location loc) {
  if (offset == 0 && source.getType() == type)
    return source;
  return rt::ViewOp::create(builder, loc, type, source, offset);
}

Value BufferEmitter::bufferAt(const Place &place, MemRefType type, Location loc) {
  Value buffer = allocationBuffer(place.allocation);
  if (!place.isSliced())
    return view(buffer, place.offset, type, loc);
  int64_t element = nn::elementBytes(type.getElementType()), offset = place.offset;
  for (const PlaceSlice &slice : place.slices) {
    int64_t ranks = dist::getAxisSize(module, slice.axis.getValue());
    auto part = MemRefType::get({slice.shard / element}, type.getElementType());
    auto whole = MemRefType::get({slice.shard / element * ranks}, type.getElementType());
    buffer = view(buffer, offset, whole, loc);
    buffer = rt::ShardOp::create(builder, loc, part, buffer, slice.axis);
    offset = slice.inner;
  }
  return view(buffer, offset, type, loc);
}

Value BufferEmitter::workspaceOf(Operation *op) {
  std::optional<Place> place = placement.workspaceOf(op);
  if (!place) {
    op->emitOpError("needs a workspace, and the target plans none (Target::workspaceBytes)");
    return {};
  }
  return bufferAt(*place, rt::bufferType(placement.allocation(place->allocation).type),
                  op->getLoc());
}
