//===- RtMachine.cpp - Runs the rt dialect on N virtual ranks -------------===//
#include "lib/Interpreter/RtMachine.h"
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/Epilogue.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Quantize.h"
#include "dialects/nn/Ops/Sdpa.h"
#include "lib/Analysis/ProgramLiveness.h"
#include "mlir/IR/Builders.h"
#include <cstring>

using namespace mlir;

namespace shale::interp {

/// All bits set: NaN as a float of any width, an invalid index as an integer. A boolean with such a
/// byte reads as false, since a missing copy of a true one must change results.
static constexpr int kPoison = 0xff;

LogicalResult RtMachine::prepare() {
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
    overflows |=
        bytes > interpreter.options.maxBytes / 8 || __builtin_add_overflow(total, bytes, &total);
  }
  if (overflows || total > interpreter.options.maxBytes / ranks)
    return function.emitError("needs more memory than the interpreter's ")
           << (interpreter.options.maxBytes >> 20) << " MiB";
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
  ProgramLiveness liveness;
  if (failed(liveness.run(function, /*strict=*/false)))
    return failure();
  SmallVector<Operation *> ops;
  for (Operation &op : function.getBody().front())
    ops.push_back(&op);
  for (const LiveBuffer &buffer : liveness.buffers) {
    rt::BufferOp op = buffer.op;
    if (op.getSpace() == rt::Space::Arena)
      freedAfter[ops[buffer.end]].push_back(op);
  }
  return success();
}

static rt::SlotOp slotOf(rt::FuncOp function, StringRef state) {
  return function->getParentOfType<ModuleOp>().lookupSymbol<rt::SlotOp>(rt::slotName(state));
}

void RtMachine::setState(int64_t rank, StringRef state, const Tensor &value) {
  if (rt::SlotOp slot = slotOf(function, state))
    if (Bytes &block = stateOf(memory[rank], slot);
        slot.getOffset() + value.byteSize() <= int64_t(block.size()))
      value.toBytes(block.data() + slot.getOffset());
}

void RtMachine::setInput(int64_t rank, int64_t index, const Tensor &value) {
  memory[rank].inputs[index].resize(value.byteSize());
  value.toBytes(memory[rank].inputs[index].data());
}

void RtMachine::setHyper(int64_t rank, int64_t index, const Tensor &value) {
  float number = value.number(0);
  std::memcpy(memory[rank].hyper.data() + 4 * index, &number, 4);
}

Tensor RtMachine::getState(int64_t rank, StringRef state, Element element,
                           ArrayRef<int64_t> shape) const {
  rt::SlotOp slot = slotOf(function, state);
  const Bytes &block =
      slot.getMemory() == mem::Memory::Host ? memory[rank].hostState : memory[rank].state;
  return Tensor::fromBytes(element, shape, block.data() + slot.getOffset());
}

float RtMachine::getMetric(int64_t rank, int64_t index) const {
  float number;
  std::memcpy(&number, memory[rank].metrics.data() + 4 * index, 4);
  return number;
}

RtMachine::Span RtMachine::span(int64_t rank, Value buffer) {
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

Tensor RtMachine::read(int64_t rank, Value buffer) {
  Span from = span(rank, buffer);
  Tensor value =
      Tensor::fromBytes(*elementOf(from.type.getElementType()), from.type.getShape(), from.bytes);
  if (from.type.getElementType().isInteger(1))
    for (int64_t i = 0; i < value.size(); ++i)
      if (from.bytes[i] == char(kPoison))
        value.setNumber(i, 0);
  return value;
}

void RtMachine::write(int64_t rank, Value buffer, const Tensor &value) {
  value.toBytes(span(rank, buffer).bytes);
}

RankValues RtMachine::readAll(ValueRange buffers) {
  RankValues values(ranks);
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (Value buffer : buffers)
      values[rank].push_back(read(rank, buffer));
  return values;
}

bool RtMachine::overlap(Value a, Value b) {
  Span left = span(0, a), right = span(0, b);
  return left.bytes < right.bytes + rt::bufferBytes(right.type) &&
         right.bytes < left.bytes + rt::bufferBytes(left.type);
}

void RtMachine::poison(int64_t rank, Value buffer) {
  Span to = span(rank, buffer);
  std::memset(to.bytes, kPoison, rt::bufferBytes(to.type));
}

LogicalResult RtMachine::launch(rt::LaunchOp op) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<rt::KernelOp>(op, op.getKernelAttr());
  bool inPlace = llvm::any_of(op.getOutputs(), [&](Value output) {
    return llvm::any_of(op.getInputs(), [&](Value input) { return overlap(output, input); });
  });
  if (inPlace)
    return launchInPlace(op, kernel.getBody().front());
  auto results = interpreter.runBlock(kernel.getBody().front(), readAll(op.getInputs()));
  if (failed(results))
    return failure();
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (auto [output, value] : llvm::zip(op.getOutputs(), (*results)[rank]))
      write(rank, output, value);
  return success();
}

LogicalResult RtMachine::compute(Operation *op, ValueRange inputs, ValueRange outputs) {
  auto results = interpreter.runOp(op, readAll(inputs));
  if (failed(results))
    return failure();
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (auto [output, value] : llvm::zip(outputs, (*results)[rank]))
      write(rank, output, value);
  scratch->clear();
  return success();
}

/// Builds a value of the buffer's tensor type, as operand of an op that is only evaluated.
static Value placeholder(OpBuilder &builder, Location loc, Value buffer, bool flat) {
  auto type = rt::tensorType(buffer.getType());
  if (flat && type.getRank() != 0)
    type = RankedTensorType::get({type.getNumElements()}, type.getElementType());
  return nn::splat(builder, loc, type, 0);
}

static SmallVector<Value> placeholders(OpBuilder &builder, Location loc, ValueRange buffers) {
  return llvm::map_to_vector(
      buffers, [&](Value buffer) { return placeholder(builder, loc, buffer, false); });
}

LogicalResult RtMachine::gemm(rt::GemmOp op) {
  OpBuilder builder = OpBuilder::atBlockEnd(scratch);
  Value a = placeholder(builder, op.getLoc(), op.getA(), false),
        b = placeholder(builder, op.getLoc(), op.getB(), false);
  Type type = rt::tensorType(op.getC().getType());
  if (!op.getScales().empty()) {
    SmallVector<Value> scales = placeholders(builder, op.getLoc(), op.getScales());
    auto product =
        nn::QuantizedMatmulOp::create(builder, op.getLoc(), type, a, b, scales[0], scales[1]);
    return compute(product, {op.getA(), op.getB(), op.getScales()[0], op.getScales()[1]},
                   op.getC());
  }
  if (op.getAccumulate()) {
    Value c = placeholder(builder, op.getLoc(), op.getC(), false);
    auto product = nn::MatmulAddOp::create(builder, op.getLoc(), type, c, a, b, op.getTransposeA(),
                                           op.getTransposeB());
    return compute(product, {op.getC(), op.getA(), op.getB()}, op.getC());
  }
  auto matmul = nn::MatmulOp::create(builder, op.getLoc(), type, a, b, op.getTransposeA(),
                                     op.getTransposeB());
  return compute(matmul, {op.getA(), op.getB()}, op.getC());
}

LogicalResult RtMachine::gemmEpilogue(rt::GemmEpilogueOp op) {
  OpBuilder builder = OpBuilder::atBlockEnd(scratch);
  SmallVector<Value> inputs{op.getA(), op.getB(), op.getWith()}, outputs{op.getC()};
  SmallVector<Value> operands = placeholders(builder, op.getLoc(), inputs);
  Type result = rt::tensorType(op.getC().getType());
  if (op.getBefore())
    outputs.push_back(op.getBefore());
  auto made = nn::MatmulEpilogueOp::create(
      builder, op.getLoc(), result, op.getBefore() ? result : Type(), op.getEpilogue(), operands[0],
      operands[1], operands[2], op.getTransposeA(), op.getTransposeB());
  return compute(made, inputs, outputs);
}

LogicalResult RtMachine::sdpa(rt::SdpaOp op) {
  OpBuilder builder = OpBuilder::atBlockEnd(scratch);
  auto made = nn::SdpaOp::create(builder, op.getLoc(), rt::tensorType(op.getResult().getType()),
                                 rt::tensorType(op.getLse().getType()),
                                 placeholders(builder, op.getLoc(), op.getInputs()),
                                 op.getCausalAttr(), op.getWindowAttr(), op.getScaleAttr());
  if (failed(compute(made, op.getInputs(), {op.getResult(), op.getLse()})))
    return failure();
  for (int64_t rank = 0; rank < ranks; ++rank)
    poison(rank, op.getWorkspace());
  return success();
}

LogicalResult RtMachine::sdpaGrad(rt::SdpaGradOp op) {
  OpBuilder builder = OpBuilder::atBlockEnd(scratch);
  SmallVector<Value> buffers(op.getInputs());
  buffers.append({op.getOutput(), op.getLse(), op.getGrad()});
  SmallVector<Value> operands = placeholders(builder, op.getLoc(), buffers);
  ValueRange given(operands), inputs = given.drop_back(3), others = given.take_back(3);
  SmallVector<Type> types;
  for (Value gradient : op.getGradients())
    types.push_back(rt::tensorType(gradient.getType()));
  auto made = nn::SdpaGradOp::create(builder, op.getLoc(), types, inputs, others[0], others[1],
                                     others[2], op.getCausalAttr(), op.getWindowAttr(),
                                     op.getDeterministicAttr(), op.getScaleAttr());
  if (failed(compute(made, buffers, op.getGradients())))
    return failure();
  for (int64_t rank = 0; rank < ranks; ++rank)
    poison(rank, op.getWorkspace());
  return success();
}

/// Poisons the receive buffer, except for bytes that it shares with the send buffer.
void RtMachine::startReceiving(Value send, Value recv) {
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Span from = span(rank, send), to = span(rank, recv);
    Bytes sent(from.bytes, from.bytes + rt::bufferBytes(from.type));
    std::memset(to.bytes, kPoison, rt::bufferBytes(to.type));
    std::memcpy(from.bytes, sent.data(), sent.size());
  }
}

LogicalResult RtMachine::finish(Operation *start) {
  OpBuilder builder = OpBuilder::atBlockEnd(scratch);
  Location loc = start->getLoc();
  auto run = [&](Value send, Value recv, bool pieces,
                 function_ref<Operation *(Value, RankedTensorType)> build) -> LogicalResult {
    // Collectives work on flat buffers, independent of their shapes, or on rows of pieces.
    auto from = rt::tensorType(send.getType()), type = rt::tensorType(recv.getType());
    if (pieces)
      from = from.clone({from.getDimSize(0), from.getNumElements() / from.getDimSize(0)});
    else if (from.getRank() != 0)
      from = from.clone(ArrayRef(from.getNumElements()));
    if (type.getRank() != 0)
      type = pieces ? type.clone({1, type.getNumElements()})
                    : type.clone(ArrayRef(type.getNumElements()));
    Value input = nn::splat(builder, loc, from, 0);
    Operation *op = build(input, type);
    RankValues operands(ranks);
    for (int64_t rank = 0; rank < ranks; ++rank)
      operands[rank].push_back(
          read(rank, send).reshaped(cast<RankedTensorType>(input.getType()).getShape()));
    auto results = interpreter.runOp(op, std::move(operands));
    if (failed(results))
      return failure();
    for (int64_t rank = 0; rank < ranks; ++rank)
      write(rank, recv, (*results)[rank][0]);
    scratch->clear();
    return success();
  };
  if (auto transfer = dyn_cast<rt::TransferOp>(start)) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      Span from = span(rank, transfer.getSource()), to = span(rank, transfer.getTarget());
      std::memcpy(to.bytes, from.bytes, rt::bufferBytes(from.type));
    }
    return success();
  }
  auto collective = cast<rt::CollectiveOpInterface>(start);
  CollectiveKind kind = collective.getCollectiveKind();
  return run(collective.getSend(), collective.getRecv(), sendsAll(kind) && receivesAll(kind),
             [&](Value input, RankedTensorType type) -> Operation * {
               return dist::createCollective(builder, loc, kind, type, input,
                                             collective.getAxisAttr());
             });
}

LogicalResult RtMachine::execute(Operation *op) {
  if (auto launchOp = dyn_cast<rt::LaunchOp>(op))
    return launch(launchOp);
  if (auto gemmOp = dyn_cast<rt::GemmOp>(op))
    return gemm(gemmOp);
  if (auto product = dyn_cast<rt::GemmEpilogueOp>(op))
    return gemmEpilogue(product);
  if (auto forward = dyn_cast<rt::SdpaOp>(op))
    return sdpa(forward);
  if (auto gradient = dyn_cast<rt::SdpaGradOp>(op))
    return sdpaGrad(gradient);
  if (auto wait = dyn_cast<rt::WaitOp>(op))
    return finish(wait.getToken().getDefiningOp());
  if (isa<rt::TransferOp, rt::CollectiveOpInterface>(op)) {
    startReceiving(op->getOperand(0), op->getOperand(1));
    return success();
  }
  for (int64_t rank = 0; rank < ranks; ++rank) {
    if (auto copy = dyn_cast<rt::CopyOp>(op)) {
      Span from = span(rank, copy.getSource()), to = span(rank, copy.getTarget());
      std::memmove(to.bytes, from.bytes, rt::bufferBytes(from.type));
    } else if (auto zero = dyn_cast<rt::ZeroOp>(op)) {
      Span to = span(rank, zero.getTarget());
      std::memset(to.bytes, 0, rt::bufferBytes(to.type));
    } else if (auto coordinate = dyn_cast<rt::CoordinateOp>(op)) {
      dist::MeshOp mesh = dist::getMesh(op);
      int64_t value = mesh ? mesh.getCoordinate(rank, coordinate.getAxis()) : 0;
      std::memcpy(span(rank, coordinate.getTarget()).bytes, &value, sizeof(value));
    } else if (!isa<rt::BufferOp, rt::ViewOp, rt::ShardOp, rt::ReturnOp>(op)) {
      return op->emitError("has no evaluator in the interpreter");
    }
  }
  return success();
}

LogicalResult RtMachine::run() {
  for (Operation &op : function.getBody().front()) {
    if (failed(execute(&op)))
      return failure();
    auto freed = freedAfter.find(&op);
    if (freed == freedAfter.end())
      continue;
    for (rt::BufferOp buffer : freed->second)
      for (int64_t rank = 0; rank < ranks; ++rank)
        poison(rank, buffer);
  }
  return success();
}

} // namespace shale::interp
