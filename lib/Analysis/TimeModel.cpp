//===- TimeModel.cpp - How long a planned step would take -----------------===//
#include "lib/Analysis/TimeModel.h"
#include "lib/Analysis/ProgramSummary.h"
#include "dialects/dist/Dist.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace shale;

// cpu: measured on two cores with AVX-512 (oneDNN 2.6 sgemm 300-410 GFLOP/s, bf16 is
// storage there; a pass over memory 12 GB/s; ranks exchange through loopback).
// GPUs: vendor data sheets, dense, at 60 % of peak for products and 80 % of memory and link; host memory
// an eighth of that of two sockets of eight channels (DDR4-3200, DDR5-4800), as in DGX machines.
static const Rates kRates[] = {
    {"cpu", 330e9, 330e9, 12e9, 1.5e9, 6e9, 12e9, 3e-6, 60e-6, true, "measured on two cores of an AVX-512 server"},
    {"a100", 0.6 * 156e12, 0.6 * 312e12, 0.8 * 2.039e12, 0.8 * 300e9, 25e9, 0.8 * 409.6e9 / 8, 4e-6, 20e-6, false, "NVIDIA A100 80GB SXM data sheet (TF32, BF16)"},
    {"h100", 0.6 * 494e12, 0.6 * 989e12, 0.8 * 3.35e12, 0.8 * 450e9, 50e9, 0.8 * 614.4e9 / 8, 3e-6, 20e-6, false, "NVIDIA H100 SXM data sheet (TF32, BF16)"},
    {"h200", 0.6 * 494e12, 0.6 * 989e12, 0.8 * 4.8e12, 0.8 * 450e9, 50e9, 0.8 * 614.4e9 / 8, 3e-6, 20e-6, false, "NVIDIA H200 SXM data sheet (TF32, BF16)"},
};

ArrayRef<Rates> shale::knownRates() { return kRates; }

const Rates *shale::ratesNamed(StringRef name) {
  for (const Rates &rates : kRates)
    if (name == rates.name)
      return &rates;
  return nullptr;
}

static int64_t bytesOf(ValueRange buffers) {
  int64_t bytes = 0;
  for (Value buffer : buffers)
    if (auto type = dyn_cast<MemRefType>(buffer.getType()))
      bytes += std::max<int64_t>(0, rt::bufferBytes(type));
  return bytes;
}

/// Seconds to pass over what the op touches, each part in its memory.
static double passSeconds(Operation *op, const Rates &rates) {
  double seconds = 0;
  for (Value operand : op->getOperands())
    if (isa<MemRefType>(operand.getType())) {
      rt::BufferOp buffer = rt::allocationOf(operand);
      seconds += bytesOf(operand) / (buffer && buffer.getHost() ? rates.hostMemory : rates.memory);
    }
  return seconds;
}

namespace {
class Simulation {
public:
  Simulation(rt::FuncOp function, const Rates &rates) : function(function), rates(rates), module(function->getParentOfType<ModuleOp>()) {
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
  /// Runs `op` on a stream from when both it and the order allow; returns its end.
  double place(Operation *op, TimedOp::Stream stream, double seconds, double delay) {
    double begin = std::max(streams[stream], streams[TimedOp::Compute]) + delay, end = begin + seconds;
    streams[stream] = end;
    step.ops.push_back({op, stream, begin, end});
    (stream == TimedOp::Compute ? step.computeSeconds
     : stream == TimedOp::Copy  ? step.copySeconds
                                : step.communicationSeconds) += end - begin + delay;
    return end;
  }

  /// Bytes that a collective sends from this rank; -1 if `op` is none.
  int64_t sentBytes(Operation *op) {
    auto send = [&](auto start, bool ofReceived, int64_t times) {
      int64_t ranks = std::max<int64_t>(1, dist::getAxisSize(module, start.getAxis()));
      int64_t bytes = bytesOf(ofReceived ? Value(start.getRecv()) : Value(start.getSend()));
      return times * (ranks - 1) * (times == 2 ? bytes / ranks : bytes);
    };
    if (auto gather = dyn_cast<rt::AllGatherOp>(op))
      return send(gather, false, 1);
    if (auto scatter = dyn_cast<rt::ReduceScatterOp>(op))
      return send(scatter, true, 1);
    if (auto reduce = dyn_cast<rt::AllReduceOp>(op))
      return send(reduce, false, 2);
    return -1;
  }

  void visit(Operation *op) {
    if (op->getNumResults() == 1 && isa<rt::TokenType>(op->getResult(0).getType())) {
      int64_t sent = sentBytes(op);
      ends[op->getResult(0)] = sent >= 0 ? place(op, TimedOp::Communication, sent / rates.link, rates.collective)
                                         : place(op, TimedOp::Copy, bytesOf(op->getOperands()) / 2.0 / rates.host, rates.launch);
      return;
    }
    for (Value operand : op->getOperands())
      if (isa<rt::TokenType>(operand.getType())) {
        double end = ends.lookup(operand), &now = streams[TimedOp::Compute];
        step.waitSeconds += std::max(0.0, end - now);
        now = std::max(now, end);
        return;
      }
    if (isMemoryEffectFree(op)) // a view is no pass over what it shows
      return;
    double seconds = passSeconds(op, rates);
    if (auto gemm = dyn_cast<rt::GemmOp>(op)) {
      bool half = gemm.getA().getType().getElementTypeBitWidth() == 16;
      seconds = std::max(seconds, gemm.getFlops() / (half ? rates.halfFlops : rates.flops));
    } else if (auto launch = dyn_cast<rt::LaunchOp>(op)) {
      // Attention multiplies like a product; a row form is bound by memory.
      seconds = std::max(seconds, flops.lookup(launch.getKernelAttr().getAttr()) / (0.5 * rates.flops));
    } else if (!isa<rt::CopyOp, rt::ZeroOp>(op) && op->getNumOperands() == 0) {
      return;
    }
    if (seconds > 0)
      place(op, TimedOp::Compute, seconds, rates.launch);
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

TimedStep shale::timeFunction(rt::FuncOp function, const Rates &rates) { return Simulation(function, rates).run(); }

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
