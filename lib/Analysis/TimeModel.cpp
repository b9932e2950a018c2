//===- TimeModel.cpp - Predicted time of a planned step -------------------===//
#include "lib/Analysis/TimeModel.h"
#include "dialects/dist/Dist.h"
#include "lib/Analysis/ProgramSummary.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace shale;

static int64_t bytesOf(ValueRange buffers) {
  int64_t bytes = 0;
  for (Value buffer : buffers)
    if (auto type = dyn_cast<MemRefType>(buffer.getType()))
      bytes += std::max<int64_t>(0, rt::bufferBytes(type));
  return bytes;
}

/// Returns the seconds to read or write all buffers of an op, each at the bandwidth of its memory.
static double passSeconds(Operation *op, const Rates &rates) {
  double seconds = 0;
  for (Value operand : op->getOperands())
    if (isa<MemRefType>(operand.getType()))
      seconds += bytesOf(operand) /
                 (rt::memoryOf(operand) == mem::Memory::Host ? rates.hostMemory : rates.memory);
  return seconds;
}

namespace {
class Simulation {
public:
  Simulation(rt::FuncOp function, const Rates &rates)
      : function(function), rates(rates), module(function->getParentOfType<ModuleOp>()) {
    for (auto kernel : module.getOps<rt::KernelOp>())
      flops[kernel.getSymNameAttr()] = kernelFlops(kernel);
  }

  TimedStep run() {
    for (Operation &op : function.getBody().front())
      visit(&op);
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
    (stream == TimedOp::Compute ? step.computeSeconds
     : stream == TimedOp::Copy  ? step.copySeconds
                                : step.communicationSeconds) += end - begin + delay;
    return end;
  }

  void visit(Operation *op) {
    if (op->getNumResults() == 1 && isa<rt::TokenType>(op->getResult(0).getType())) {
      auto collective = dyn_cast<rt::CollectiveOpInterface>(op);
      auto sent = [&] {
        return collective.getSentBytes(
            std::max<int64_t>(1, dist::getAxisSize(module, collective.getAxisAttr())));
      };
      ends[op->getResult(0)] =
          collective ? place(op, TimedOp::Communication, sent() / rates.link, rates.collective)
                     : place(op, TimedOp::Copy, bytesOf(op->getOperands()) / 2.0 / rates.host,
                             rates.launch);
      return;
    }
    for (Value operand : op->getOperands())
      if (isa<rt::TokenType>(operand.getType())) {
        double end = ends.lookup(operand), &now = streams[TimedOp::Compute];
        step.waitSeconds += std::max(0.0, end - now);
        now = std::max(now, end);
        return;
      }
    if (isMemoryEffectFree(op)) // a view takes no time
      return;
    double seconds = passSeconds(op, rates);
    if (isa<rt::GemmOp, rt::GemmEpilogueOp>(op)) {
      seconds = std::max(seconds, cast<CostOpInterface>(op).getFlops() / productRate(op));
    } else if (auto attention = dyn_cast<CostOpInterface>(op)) {
      seconds = std::max(seconds, attention.getFlops() / rates.attention);
    } else if (auto launch = dyn_cast<rt::LaunchOp>(op)) {
      // Attention reaches half the rate of products; row kernels are bound by memory.
      seconds =
          std::max(seconds, flops.lookup(launch.getKernelAttr().getAttr()) / (0.5 * rates.flops));
    } else if (!isa<rt::CopyOp, rt::ZeroOp>(op) && op->getNumOperands() == 0) {
      return;
    }
    if (seconds > 0)
      place(op, TimedOp::Compute, seconds, rates.launch);
  }

  double productRate(Operation *op) const {
    Type element = cast<MemRefType>(op->getOperand(0).getType()).getElementType();
    return is16BitFloat(element)                                    ? rates.flops16
           : element.isF32() && module->hasAttr(rt::kAllowTf32Attr) ? rates.flopsTf32
                                                                    : rates.flops;
  }

  rt::FuncOp function;
  const Rates &rates;
  ModuleOp module;
  TimedStep step;
  double streams[3] = {0, 0, 0};
  DenseMap<StringAttr, int64_t> flops;
  DenseMap<Value, double> ends;
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
