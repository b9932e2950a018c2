//===- VerifyPlan.cpp - Exit contract of plan -----------------------------===//
#include "lib/Analysis/BufferSpan.h"
#include "lib/Analysis/KernelReads.h"
#include "lib/Analysis/ProgramLiveness.h"
#include "lib/Codegen/KernelAnswers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/plan/Passes.h"

using namespace mlir;
using namespace shale;

namespace shale {
#define GEN_PASS_DEF_VERIFYPLANPASS
#include "passes/plan/Passes.h.inc"
} // namespace shale

/// Fails where two buffers of the arena are live at once and overlap.
static LogicalResult verifyOverlap(ProgramLiveness &liveness) {
  SmallVector<LiveBuffer *> active;
  for (LiveBuffer &buffer : liveness.buffers) {
    if (buffer.op.getSpace() != rt::Space::Arena)
      continue;
    llvm::erase_if(active, [&](LiveBuffer *other) { return other->end < buffer.begin; });
    for (LiveBuffer *other : active) {
      rt::BufferOp a = buffer.op, b = other->op;
      if (a.getMemory() == b.getMemory() && a.getOffset() < b.getOffset() + other->bytes &&
          b.getOffset() < a.getOffset() + buffer.bytes) {
        InFlightDiagnostic diag = a.emitOpError()
                                  << "'" << a.getName()
                                  << "' shares bytes with a buffer that is live at the same time";
        diag.attachNote(b.getLoc()) << "'" << b.getName() << "' at offset " << b.getOffset();
        return diag;
      }
    }
    active.push_back(&buffer);
  }
  return success();
}

/// Fails if a launch writes over bytes that it reads, unless they are those of the input that its
/// kernel may overwrite, or if a kernel reads an input after it has been overwritten.
static LogicalResult
verifyInPlace(Operation *launch, rt::KernelOp kernel, ValueRange read, ValueRange written,
              DenseMap<std::pair<Operation *, int64_t>, std::string> &hazards) {
  ArrayRef<int64_t> aliases = kernel.getAliases().value_or(ArrayRef<int64_t>());
  SmallVector<BufferSpan> inputs = llvm::map_to_vector(read, spanOf);
  for (auto [result, buffer] : llvm::enumerate(written)) {
    BufferSpan output = spanOf(buffer);
    for (auto [argument, input] : llvm::enumerate(inputs)) {
      if (!output.overlaps(input))
        continue;
      if (result >= aliases.size() || aliases[result] != int64_t(argument) || !(output == input))
        return launch->emitOpError()
               << "writes output " << result << " over input " << argument << ", which it reads";
      auto [hazard, isNew] = hazards.try_emplace({kernel, int64_t(result)});
      if (isNew)
        hazard->second = answerOnce(
            ("hazard of " + Twine(result) + " over " + Twine(argument)).str(), kernel.getBody(),
            [&, r = result, a = argument] { return findHazard(kernel.getBody().front(), r, a); });
      if (hazard->second.empty())
        continue;
      InFlightDiagnostic diag = launch->emitOpError()
                                << "writes output " << result << " over input " << argument
                                << ", but " << hazard->second;
      diag.attachNote(kernel.getLoc()) << "kernel @" << kernel.getSymName();
      return diag;
    }
  }
  return success();
}

/// Checks the launch of a kernel, or one that may follow a matmul.
static LogicalResult verifyKernel(Operation &op, SymbolTable &symbols,
                                  DenseMap<std::pair<Operation *, int64_t>, std::string> &hazards) {
  if (auto launch = dyn_cast<rt::LaunchOp>(op))
    return verifyInPlace(launch, symbols.lookup<rt::KernelOp>(launch.getKernel()),
                         launch.getInputs(), launch.getOutputs(), hazards);
  auto matmul = dyn_cast<rt::GemmEpilogueOp>(op);
  if (!matmul)
    return success();
  SmallVector<Value> outputs{matmul.getC()};
  if (matmul.getBefore())
    outputs.push_back(matmul.getBefore());
  return verifyInPlace(matmul, symbols.lookup<rt::KernelOp>(matmul.getKernel()),
                       {matmul.getC(), matmul.getWith()}, outputs, hazards);
}

namespace {
struct VerifyPlanPass : public shale::impl::VerifyPlanPassBase<VerifyPlanPass> {
  using Base::Base;
  void runOnOperation() override {
    DenseMap<std::pair<Operation *, int64_t>, std::string> hazards;
    SymbolTable symbols(getOperation());
    for (auto function : getOperation().getOps<rt::FuncOp>()) {
      for (Operation &op : function.getBody().front())
        if (failed(verifyKernel(op, symbols, hazards)))
          return signalPassFailure();
      ProgramLiveness liveness;
      if (failed(liveness.run(function)) || failed(verifyOverlap(liveness)))
        return signalPassFailure();
    }
  }
};
} // namespace
