//===- RankMemory.cpp - The memory of a planned function on N ranks -------===//
#include "lib/Interpreter/RankMemory.h"
#include "dialects/dist/Dist.h"
#include "dialects/nn/NN.h"
#include <cstring>

using namespace mlir;

namespace shale::interp {

/// All bits set: NaN as a float of any width, an invalid index as an integer. A boolean with such a
/// byte reads as false, since a missing copy of a true one must change results.
static constexpr int kPoison = 0xff;

LogicalResult RankMemory::allocate() {
  auto module = function->getParentOfType<ModuleOp>();
  auto size = [&](StringRef name) -> int64_t {
    auto attr = module->getAttrOfType<IntegerAttr>(name);
    return attr ? attr.getInt() : 0;
  };
  int64_t total = 0;
  bool overflows = false;
  for (StringRef name :
       {rt::kStateBytesAttr, rt::kArenaBytesAttr, rt::kHostStateBytesAttr, rt::kHostArenaBytesAttr})
    overflows |= size(name) < 0 || __builtin_add_overflow(total, size(name), &total);
  for (auto constant : module.getOps<rt::ConstantOp>()) {
    int64_t bytes = nn::tensorBytes(cast<RankedTensorType>(constant.getValue().getType()));
    if (bytes < 0 || !elementOf(constant.getValue().getElementType()))
      return constant.emitError("the interpreter does not support constants of type ")
             << constant.getValue().getType();
    overflows |= bytes > maxBytes / 8 || __builtin_add_overflow(total, bytes, &total);
  }
  if (overflows || total > maxBytes / ranks)
    return function.emitError("needs more memory than the interpreter's ")
           << (maxBytes >> 20) << " MiB";
  memory.resize(ranks);
  for (Memory &own : memory) {
    own.state.assign(size(rt::kStateBytesAttr), char(kPoison));
    own.arena.assign(size(rt::kArenaBytesAttr), char(kPoison));
    own.hostState.assign(size(rt::kHostStateBytesAttr), char(kPoison));
    own.hostArena.assign(size(rt::kHostArenaBytesAttr), char(kPoison));
    own.hyper.assign(function.getHyper().size() * 4, char(kPoison));
    own.metrics.assign(function.getMetrics().size() * 4, char(kPoison));
    own.inputs.resize(function.getInputs().size());
    for (auto constant : module.getOps<rt::ConstantOp>()) {
      Tensor value = Tensor::fromAttr(constant.getValue());
      Bytes &bytes = own.constants[constant.getSymName()];
      bytes.resize(value.byteSize());
      value.toBytes(bytes.data());
    }
  }
  return success();
}

static rt::SlotOp slotOf(rt::FuncOp function, StringRef state) {
  return function->getParentOfType<ModuleOp>().lookupSymbol<rt::SlotOp>(rt::slotName(state));
}

void RankMemory::setState(int64_t rank, StringRef state, const Tensor &value) {
  if (rt::SlotOp slot = slotOf(function, state))
    if (Bytes &block = stateOf(memory[rank], slot);
        slot.getOffset() + value.byteSize() <= int64_t(block.size()))
      value.toBytes(block.data() + slot.getOffset());
}

void RankMemory::setInput(int64_t rank, int64_t index, const Tensor &value) {
  memory[rank].inputs[index].resize(value.byteSize());
  value.toBytes(memory[rank].inputs[index].data());
}

void RankMemory::setHyper(int64_t rank, int64_t index, const Tensor &value) {
  float number = value.number(0);
  std::memcpy(memory[rank].hyper.data() + 4 * index, &number, 4);
}

Tensor RankMemory::getState(int64_t rank, StringRef state, Element element,
                            ArrayRef<int64_t> shape) const {
  rt::SlotOp slot = slotOf(function, state);
  const Bytes &block =
      slot.getMemory() == mem::Memory::Host ? memory[rank].hostState : memory[rank].state;
  return Tensor::fromBytes(element, shape, block.data() + slot.getOffset());
}

float RankMemory::getMetric(int64_t rank, int64_t index) const {
  float number;
  std::memcpy(&number, memory[rank].metrics.data() + 4 * index, 4);
  return number;
}

RankMemory::Span RankMemory::span(int64_t rank, Value buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  Memory &own = memory[rank];
  if (auto view = buffer.getDefiningOp<rt::ViewOp>())
    return {span(rank, view.getSource()).bytes + view.getOffset(), type};
  if (auto shard = buffer.getDefiningOp<rt::ShardOp>()) {
    dist::MeshOp mesh = dist::getMesh(shard);
    int64_t coordinate = mesh ? mesh.getCoordinate(rank, shard.getAxis()) : 0;
    return {span(rank, shard.getSource()).bytes + coordinate * rt::bufferBytes(type), type};
  }
  auto op = buffer.getDefiningOp<rt::BufferOp>();
  switch (op.getSpace()) {
  case rt::Space::State:
    return {(op.getMemory() == mem::Memory::Host ? own.hostState : own.state).data() +
                op.getOffset(),
            type};
  case rt::Space::Arena:
    return {(op.getMemory() == mem::Memory::Host ? own.hostArena : own.arena).data() +
                op.getOffset(),
            type};
  case rt::Space::Input:
    return {own.inputs[*op.getIndex()].data(), type};
  case rt::Space::Constant:
    return {own.constants[*op.getSymbol()].data(), type};
  case rt::Space::Hyper:
    return {own.hyper.data() + 4 * *op.getIndex(), type};
  case rt::Space::Metric:
    return {own.metrics.data() + 4 * *op.getIndex(), type};
  }
  return {nullptr, type};
}

Tensor RankMemory::read(int64_t rank, Value buffer) {
  Span from = span(rank, buffer);
  Tensor value =
      Tensor::fromBytes(*elementOf(from.type.getElementType()), from.type.getShape(), from.bytes);
  if (from.type.getElementType().isInteger(1))
    for (int64_t i = 0; i < value.size(); ++i)
      if (from.bytes[i] == char(kPoison))
        value.setNumber(i, 0);
  return value;
}

void RankMemory::write(int64_t rank, Value buffer, const Tensor &value) {
  value.toBytes(span(rank, buffer).bytes);
}

RankValues RankMemory::readAll(ValueRange buffers) {
  RankValues values(ranks);
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (Value buffer : buffers)
      values[rank].push_back(read(rank, buffer));
  return values;
}

void RankMemory::writeAll(ValueRange buffers, const RankValues &values) {
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (auto [buffer, value] : llvm::zip(buffers, values[rank]))
      write(rank, buffer, value);
}

bool RankMemory::overlap(Value a, Value b) {
  Span left = span(0, a), right = span(0, b);
  return left.bytes < right.bytes + right.size() && right.bytes < left.bytes + left.size();
}

void RankMemory::copy(Value source, Value target) {
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Span from = span(rank, source);
    std::memmove(span(rank, target).bytes, from.bytes, from.size());
  }
}

void RankMemory::zero(Value buffer) {
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Span to = span(rank, buffer);
    std::memset(to.bytes, 0, to.size());
  }
}

void RankMemory::poison(Value buffer) {
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Span to = span(rank, buffer);
    std::memset(to.bytes, kPoison, to.size());
  }
}

void RankMemory::startReceiving(Value send, Value recv) {
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Span from = span(rank, send), to = span(rank, recv);
    Bytes sent(from.bytes, from.bytes + from.size());
    std::memset(to.bytes, kPoison, to.size());
    std::memcpy(from.bytes, sent.data(), sent.size());
  }
}

} // namespace shale::interp
