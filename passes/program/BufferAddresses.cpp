//===- BufferAddresses.cpp - Computes the addresses of buffers ------------===//
#include "passes/program/BufferAddresses.h"

using namespace mlir;
using namespace shale;

Value BufferAddresses::coordinate(StringRef axis) {
  Value &value = coordinates[axis];
  if (!value) {
    calls::shale_coordinate coordinate;
    coordinate.axis = axisIndex(module, axis);
    value = b.atTop([&] { return b.call(coordinate); });
  }
  return value;
}

template <typename Call> Value BufferAddresses::block() {
  Value &value = blocks[Call::kName];
  if (!value)
    value = b.atTop([&] { return b.call(Call()); });
  return value;
}

Value BufferAddresses::compute(rt::BufferOp op, ShaleSpace space) {
  bool host = space == SHALE_SPACE_HOST;
  switch (op.getSpace()) {
  case rt::Space::State:
    return b.advance(op.getMemory() == mem::Memory::Host ? block<calls::shale_host_state>()
                                                         : b.argument(CallBuilder::State),
                     op.getOffset());
  case rt::Space::Arena:
    return b.advance(op.getMemory() == mem::Memory::Host ? block<calls::shale_host_arena>()
                                                         : b.argument(CallBuilder::Arena),
                     op.getOffset());
  case rt::Space::Input:
    return LLVM::LoadOp::create(
        b, b.pointer(),
        b.advance(host ? block<calls::shale_host_inputs>() : b.argument(CallBuilder::Inputs),
                  8 * *op.getIndex()));
  case rt::Space::Constant: {
    int64_t offset = constants.offsets.lookup(*op.getSymbol());
    Value start = host ? LLVM::AddressOfOp::create(b, b.pointer(), kConstants).getResult()
                       : block<calls::shale_constants>();
    return b.advance(start, offset);
  }
  case rt::Space::Hyper:
    return b.advance(host ? block<calls::shale_host_hyper>() : b.argument(CallBuilder::Hyper),
                     4 * *op.getIndex());
  case rt::Space::Metric:
    return b.advance(b.argument(CallBuilder::Metrics), 4 * *op.getIndex());
  }
  llvm_unreachable("unknown space");
}

Value BufferAddresses::of(Value buffer, ShaleSpace space) {
  if (Value known = addresses.lookup({buffer, space}))
    return known;
  Value made;
  if (auto view = buffer.getDefiningOp<rt::ViewOp>()) {
    made = b.advance(of(view.getSource(), space), view.getOffset());
  } else if (auto shard = buffer.getDefiningOp<rt::ShardOp>()) {
    Value bytes = LLVM::MulOp::create(b, coordinate(shard.getAxis()),
                                      b.i64(rt::bufferBytes(shard.getType())));
    made = b.advanceBy(of(shard.getSource(), space), bytes);
  } else {
    made = compute(buffer.getDefiningOp<rt::BufferOp>(), space);
  }
  return addresses[{buffer, space}] = made;
}
