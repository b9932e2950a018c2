//===- RtMachine.cpp - Runs the rt dialect on N virtual ranks -------------===//
#include "lib/Interpreter/RtMachine.h"
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/Epilogue.h"
#include "dialects/nn/Ops/GroupedMatmul.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Quantize.h"
#include "dialects/nn/Ops/Sdpa.h"
#include "lib/Analysis/ProgramLiveness.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace shale::interp {

LogicalResult RtMachine::prepare() {
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

LogicalResult RtMachine::launch(rt::LaunchOp op) {
  auto kernel = SymbolTable::lookupNearestSymbolFrom<rt::KernelOp>(op, op.getKernelAttr());
  bool inPlace = llvm::any_of(op.getOutputs(), [&](Value output) {
    return llvm::any_of(op.getInputs(), [&](Value input) { return memory.overlap(output, input); });
  });
  if (inPlace)
    return launchInPlace(op, kernel.getBody().front());
  auto results = interpreter.runBlock(kernel.getBody().front(), memory.readAll(op.getInputs()));
  if (failed(results))
    return failure();
  memory.writeAll(op.getOutputs(), *results);
  return success();
}

LogicalResult RtMachine::compute(Operation *op, ValueRange inputs, ValueRange outputs) {
  auto results = interpreter.runOp(op, memory.readAll(inputs));
  if (failed(results))
    return failure();
  memory.writeAll(outputs, *results);
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
    auto matmul =
        nn::QuantizedMatmulOp::create(builder, op.getLoc(), type, a, b, scales[0], scales[1]);
    return compute(matmul, {op.getA(), op.getB(), op.getScales()[0], op.getScales()[1]}, op.getC());
  }
  if (op.getAccumulate()) {
    Value c = placeholder(builder, op.getLoc(), op.getC(), false);
    auto matmul = nn::MatmulAddOp::create(builder, op.getLoc(), type, c, a, b, op.getTransposeA(),
                                          op.getTransposeB());
    return compute(matmul, {op.getC(), op.getA(), op.getB()}, op.getC());
  }
  auto matmul = nn::MatmulOp::create(builder, op.getLoc(), type, a, b, op.getTransposeA(),
                                     op.getTransposeB());
  return compute(matmul, {op.getA(), op.getB()}, op.getC());
}

LogicalResult RtMachine::groupedGemm(rt::GroupedGemmOp op) {
  OpBuilder builder = OpBuilder::atBlockEnd(scratch);
  SmallVector<Value> inputs{op.getA(), op.getB(), op.getEnds()};
  SmallVector<Value> operands = placeholders(builder, op.getLoc(), inputs);
  Type type = rt::tensorType(op.getC().getType());
  Operation *made;
  if (op.getTransposeA())
    made = nn::GroupedMatmulGradOp::create(builder, op.getLoc(), type, operands[0], operands[1],
                                           operands[2], op.getOfAttr());
  else
    made = nn::GroupedMatmulOp::create(builder, op.getLoc(), type, operands[0], operands[1],
                                       operands[2], op.getTransposeB(), op.getOfAttr());
  return compute(made, inputs, op.getC());
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
  memory.poison(op.getWorkspace());
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
  memory.poison(op.getWorkspace());
  return success();
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
          memory.read(rank, send).reshaped(cast<RankedTensorType>(input.getType()).getShape()));
    auto results = interpreter.runOp(op, std::move(operands));
    if (failed(results))
      return failure();
    for (int64_t rank = 0; rank < ranks; ++rank)
      memory.write(rank, recv, (*results)[rank][0]);
    scratch->clear();
    return success();
  };
  if (auto transfer = dyn_cast<rt::TransferOp>(start)) {
    memory.copy(transfer.getSource(), transfer.getTarget());
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
  if (auto matmul = dyn_cast<rt::GemmEpilogueOp>(op))
    return gemmEpilogue(matmul);
  if (auto matmul = dyn_cast<rt::GroupedGemmOp>(op))
    return groupedGemm(matmul);
  if (auto forward = dyn_cast<rt::SdpaOp>(op))
    return sdpa(forward);
  if (auto gradient = dyn_cast<rt::SdpaGradOp>(op))
    return sdpaGrad(gradient);
  if (auto wait = dyn_cast<rt::WaitOp>(op))
    return finish(wait.getToken().getDefiningOp());
  if (isa<rt::TransferOp, rt::CollectiveOpInterface>(op)) {
    memory.startReceiving(op->getOperand(0), op->getOperand(1));
    return success();
  }
  if (auto copy = dyn_cast<rt::CopyOp>(op)) {
    memory.copy(copy.getSource(), copy.getTarget());
  } else if (auto zero = dyn_cast<rt::ZeroOp>(op)) {
    memory.zero(zero.getTarget());
  } else if (auto coordinate = dyn_cast<rt::CoordinateOp>(op)) {
    dist::MeshOp mesh = dist::getMesh(op);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      int64_t value = mesh ? mesh.getCoordinate(rank, coordinate.getAxis()) : 0;
      memory.write(rank, coordinate.getTarget(), Tensor::scalar(Element::I64, double(value)));
    }
  } else if (!isa<rt::BufferOp, rt::ViewOp, rt::ShardOp, rt::ReturnOp>(op)) {
    return op->emitError("has no evaluator in the interpreter");
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
      memory.poison(buffer);
  }
  return success();
}

} // namespace shale::interp
