//===- TimeModel.cpp - Predicted time of a planned step -------------------===//
#include "lib/Analysis/TimeModel.h"
#include "dialects/dist/Dist.h"
#include "dialects/interfaces/Float8.h"
#include "lib/Analysis/ProgramSummary.h"
#include "lib/Analysis/Transfers.h"
#include "lib/Target/Target.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace shale;

static int64_t bytesOf(Value buffer) {
  return std::max<int64_t>(0, rt::bufferBytes(cast<MemRefType>(buffer.getType())));
}

static int64_t bytesOf(ValueRange buffers) {
  int64_t bytes = 0;
  for (Value buffer : buffers)
    if (isa<MemRefType>(buffer.getType()))
      bytes += bytesOf(buffer);
  return bytes;
}

/// Returns the seconds to read or write all buffers of an op, each at the bandwidth of its memory.
/// Code that computes converts 16-bit floats; a copy does not.
static double passSeconds(Operation *op, const Rates &rates) {
  double seconds = 0, each16 = isa<rt::LaunchOp>(op) ? rates.bytes16 : 1;
  for (Value operand : op->getOperands())
    if (auto type = dyn_cast<MemRefType>(operand.getType()))
      seconds += bytesOf(operand) * (is16BitFloat(type.getElementType()) ? each16 : 1) /
                 (rt::memoryOf(operand) == mem::Memory::Host ? rates.hostMemory : rates.memory);
  return seconds;
}

/// Returns the instructions that a target makes of an element of `op`: a function of `math`, as
/// exp, becomes a polynomial of about 16.
static int64_t instructionsOf(ElementwiseOpInterface op) {
  Block block;
  OpBuilder builder(op->getContext());
  builder.setInsertionPointToEnd(&block);
  for (Type type : op->getOperandTypes())
    block.addArgument(getElementTypeOrSelf(type), op->getLoc());
  op.emitElement(builder, op->getLoc(), block.getArguments());
  int64_t count = 0;
  for (Operation &emitted : block)
    count += isa<math::MathDialect>(emitted.getDialect()) ? 16 : 1;
  return count;
}

AxisLink shale::linkOfAxis(ModuleOp module, StringRef axis, const Rates &rates) {
  int64_t ranks = 1, stride = 1, size = 1; // `ranks`: of the axes behind
  SmallVector<StringRef, 2> members = dist::MeshOp::membersOf(axis);
  if (dist::MeshOp mesh = dist::getMesh(module))
    for (int64_t i = mesh.getSizes().size() - 1; i >= 0; --i) {
      int64_t each = mesh.getSizes()[i];
      if (each > 1 && llvm::is_contained(members, cast<StringAttr>(mesh.getAxes()[i]).getValue())) {
        // If another axis lies between two members, the outer one has the slower link, which
        // counts.
        bool adjoins = ranks == stride * size;
        size = adjoins ? size * each : each;
        stride = adjoins && size > each ? stride : ranks;
      }
      ranks *= each;
    }
  return linkOf(rates, ranks, stride, size);
}

namespace {
class Simulation {
public:
  Simulation(rt::FuncOp function, const Rates &rates)
      : function(function), rates(rates), module(function->getParentOfType<ModuleOp>()),
        target(targetOf(module)) {
    // instructionsOf() creates ops of these dialects.
    module.getContext()->loadDialect<arith::ArithDialect, math::MathDialect>();
    for (auto kernel : module.getOps<rt::KernelOp>())
      arithmetic[kernel.getSymNameAttr()] = arithmeticSeconds(kernel);
  }

  TimedStep run() {
    for (Operation &op : function.getBody().front())
      visit(&op);
    transfers.finish();
    transfers.each([&](const Transfer &each) {
      step.ops.push_back({each.op, TimedOp::Communication, each.begin, each.end, each.exposed});
      step.communicationSeconds += each.end - each.begin;
      step.seconds = std::max(step.seconds, each.end);
    });
    for (double end : streams)
      step.seconds = std::max(step.seconds, end);
    return std::move(step);
  }

private:
  /// Places `op` on a stream once the stream is free and compute has reached the op. Returns its
  /// end.
  double place(Operation *op, TimedOp::Stream stream, double seconds, double delay) {
    double begin = std::max(streams[stream], streams[TimedOp::Compute]) + delay,
           end = begin + seconds;
    streams[stream] = end;
    step.ops.push_back({op, stream, begin, end});
    (stream == TimedOp::Compute ? step.computeSeconds : step.copySeconds) += end - begin + delay;
    return end;
  }

  /// Puts a collective on its stream. Each round of a reduction has the latency of the axis. A
  /// bucket that is one exchange has the latency once.
  void start(rt::CollectiveOpInterface op) {
    StringAttr axis = op.getAxisAttr();
    auto [known, isNew] = links.try_emplace(axis);
    if (isNew)
      known->second = linkOfAxis(module, axis, rates);
    const AxisLink &link = known->second;
    int64_t sent = op.getSentBytes(std::max<int64_t>(1, dist::getAxisSize(module, axis)));
    double later = target ? double(roundsOf(op, *target) - 1) * link.latency : 0;
    Type element = op.getSend().getType().getElementType();
    bool isGather = gathers(op.getCollectiveKind());
    bool isJoined = bucketOf(op) != op.getSite() &&
                    (isGather || !target || target->exchangesBucketsAtOnce(element));
    Transfers::Stream stream;
    if (target && target->hasStreamsPerAxis())
      stream = {axis.str(), isGather};
    transfers.start(stream, {op, streams[TimedOp::Compute], isJoined ? 0 : link.latency,
                             double(sent) / link.rate + later, link.leavesNode()});
  }

  /// Lets compute wait for a collective or a copy.
  void wait(Operation *op) {
    double &now = streams[TimedOp::Compute];
    auto copy = copies.find(op);
    double end = copy == copies.end() ? transfers.finish(op) : step.ops[copy->second].end;
    if (end <= now)
      return;
    step.waitSeconds += end - now;
    if (copy == copies.end())
      transfers.expose(op, now);
    else
      step.ops[copy->second].exposed += end - now;
    now = end;
  }

  void visit(Operation *op) {
    if (op->getNumResults() == 1 && isa<rt::TokenType>(op->getResult(0).getType())) {
      if (auto collective = dyn_cast<rt::CollectiveOpInterface>(op))
        return start(collective);
      copies[op] = step.ops.size();
      place(op, TimedOp::Copy, bytesOf(op->getOperands()) / 2.0 / rates.host, rates.launch);
      return;
    }
    for (Value operand : op->getOperands())
      if (isa<rt::TokenType>(operand.getType())) {
        if (Operation *started = operand.getDefiningOp())
          wait(started);
        return;
      }
    if (isMemoryEffectFree(op)) // a view takes no time
      return;
    double seconds = passSeconds(op, rates);
    if (auto epilogue = dyn_cast<rt::GemmEpilogueOp>(op)) {
      // An epilogue reads or writes a second matrix after the matmul.
      double second = bytesOf(epilogue.getWith()) + bytesOf(epilogue->getOperands().drop_front(4));
      seconds = std::max(seconds, epilogue.getFlops() / matmulRate(op) + second / rates.memory);
    } else if (auto forward = dyn_cast<rt::SdpaOp>(op)) {
      seconds = std::max(seconds, attentionSeconds(forward));
    } else if (auto backward = dyn_cast<rt::SdpaGradOp>(op)) {
      seconds = std::max(seconds, attentionSeconds(backward));
    } else if (auto matmul = dyn_cast<CostOpInterface>(op); matmul && matmul.isMatmul()) {
      seconds = std::max(seconds, matmul.getFlops() / matmulRate(op));
    } else if (auto launch = dyn_cast<rt::LaunchOp>(op)) {
      seconds = std::max(seconds, arithmetic.lookup(launch.getKernelAttr().getAttr()));
    } else if (!isa<rt::CopyOp, rt::ZeroOp>(op) && op->getNumOperands() == 0) {
      return;
    }
    if (seconds > 0)
      place(op, TimedOp::Compute, seconds, rates.launch);
  }

  /// Returns the seconds of the matmuls of an attention and of its softmax. The softmax takes time
  /// per score, so small heads have a lower rate than large ones.
  template <typename Attention> double attentionSeconds(Attention op) const {
    nn::AttentionSizes sizes = op.getSizes();
    double flops = op.getFlops(), scores = flops / (2 * (sizes.depth + sizes.valueDepth));
    return flops / rates.attention + scores / rates.scores;
  }

  /// Returns the seconds of a kernel's arithmetic. Generated attention reaches half the rate of
  /// matmuls; row kernels are bound by memory. Dedicated matmuls reach it, but not by TF32.
  double arithmeticSeconds(rt::KernelOp kernel) const {
    int64_t flops = 0;
    double seconds = 0;
    kernel.getBody().walk([&](CostOpInterface op) {
      if (!op.isMatmul())
        return;
      flops += op.getFlops();
      bool narrow = is16BitFloat(getElementTypeOrSelf(op->getOperand(0)));
      seconds += op.getFlops() / (narrow ? rates.flops16 : rates.flops);
    });
    return seconds + (kernelWork(kernel, instructionsOf) - flops) / (0.5 * rates.flops);
  }

  double matmulRate(Operation *op) const {
    Type element = getElementTypeOrSelf(op->getOperand(0));
    if (is8BitFloat(element))
      return rates.flops8 > 0 ? rates.flops8 : rates.flops;
    return is16BitFloat(element)                                    ? rates.flops16
           : element.isF32() && module->hasAttr(rt::kAllowTf32Attr) ? rates.flopsTf32
                                                                    : rates.flops;
  }

  rt::FuncOp function;
  const Rates &rates;
  ModuleOp module;
  const Target *target; // null if the module names none
  TimedStep step;
  double streams[3] = {0, 0, 0}; // when each is free; collectives have their own
  Transfers transfers;
  DenseMap<StringAttr, AxisLink> links;
  DenseMap<Operation *, size_t> copies;    // places in step.ops
  DenseMap<StringAttr, double> arithmetic; // seconds of kernels
};
} // namespace

TimedStep shale::timeFunction(rt::FuncOp function, const Rates &rates) {
  return Simulation(function, rates).run();
}

double shale::predictSeconds(ModuleOp module, const Rates &rates) {
  bool hasStep = module.lookupSymbol<rt::FuncOp>("step") != nullptr;
  double seconds = 0;
  for (auto function : module.getOps<rt::FuncOp>()) {
    int64_t calls = hasStep ? callsPerStep(function) : function.getSymName() != "evaluate";
    if (calls > 0)
      seconds += calls * timeFunction(function, rates).seconds;
  }
  return seconds;
}
