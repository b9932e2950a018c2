//===- VerifyPlan.cpp - Exit contract of plan -----------------------------===//
#include "lib/Analysis/KernelReads.h"
#include "lib/Analysis/ProgramLiveness.h"
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
                                  << "' shares bytes with a buffer that is live at once";
        diag.attachNote(b.getLoc()) << "'" << b.getName() << "' at offset " << b.getOffset();
        return diag;
      }
    }
    active.push_back(&buffer);
  }
  return success();
}

namespace {
/// The place of a buffer: bytes [begin, begin + bytes) of a block, or a slice of these bytes. The
/// offset of a slice depends on the rank.
struct Span {
  rt::BufferOp block;
  int64_t begin = 0, bytes = 0;
  SmallVector<std::tuple<StringRef, int64_t, int64_t>>
      slices; // axis, bytes of a slice, offset in it

  bool sameBlock(const Span &other) const {
    rt::BufferOp a = block, b = other.block;
    return a.getSpace() == b.getSpace() && a.getMemory() == b.getMemory() &&
           a.getIndex() == b.getIndex() &&
           (a.getSpace() == rt::Space::State || a.getSymbol() == b.getSymbol());
  }
  bool overlaps(const Span &other) const {
    return sameBlock(other) && begin < other.begin + other.bytes && other.begin < begin + bytes;
  }
  bool operator==(const Span &other) const {
    return sameBlock(other) && begin == other.begin && bytes == other.bytes &&
           slices == other.slices;
  }
};
} // namespace

static Span spanOf(Value buffer) {
  int64_t bytes = rt::bufferBytes(cast<MemRefType>(buffer.getType()));
  if (auto view = buffer.getDefiningOp<rt::ViewOp>()) {
    Span span = spanOf(view.getSource());
    if (span.slices.empty()) {
      span.begin += view.getOffset();
      span.bytes = bytes;
    } else {
      std::get<1>(span.slices.back()) = bytes;
      std::get<2>(span.slices.back()) += view.getOffset();
    }
    return span;
  }
  if (auto shard = buffer.getDefiningOp<rt::ShardOp>()) {
    Span span = spanOf(shard.getSource());
    span.slices.push_back({shard.getAxis(), bytes, 0});
    return span;
  }
  auto op = buffer.getDefiningOp<rt::BufferOp>();
  bool placed = op.getSpace() == rt::Space::State || op.getSpace() == rt::Space::Arena;
  return {op, placed ? int64_t(op.getOffset()) : 0, bytes, {}};
}

/// Fails if a launch writes over bytes that it reads, unless they are those of the input that its
/// kernel may overwrite, or if a kernel reads an input after it has been overwritten.
static LogicalResult
verifyInPlace(rt::LaunchOp launch, SymbolTable &symbols,
              DenseMap<std::pair<Operation *, int64_t>, std::string> &hazards) {
  auto kernel = symbols.lookup<rt::KernelOp>(launch.getKernel());
  ArrayRef<int64_t> aliases = kernel.getAliases().value_or(ArrayRef<int64_t>());
  SmallVector<Span> inputs = llvm::map_to_vector(launch.getInputs(), spanOf);
  for (auto [result, buffer] : llvm::enumerate(launch.getOutputs())) {
    Span output = spanOf(buffer);
    for (auto [argument, input] : llvm::enumerate(inputs)) {
      if (!output.overlaps(input))
        continue;
      if (result >= aliases.size() || aliases[result] != int64_t(argument) || !(output == input))
        return launch.emitOpError()
               << "writes output " << result << " over input " << argument << ", which it reads";
      auto [hazard, isNew] = hazards.try_emplace({kernel, int64_t(result)});
      if (isNew)
        hazard->second = findHazard(kernel.getBody().front(), result, argument);
      if (hazard->second.empty())
        continue;
      InFlightDiagnostic diag = launch.emitOpError() << "writes output " << result << " over input "
                                                     << argument << ", but " << hazard->second;
      diag.attachNote(kernel.getLoc()) << "kernel @" << kernel.getSymName();
      return diag;
    }
  }
  return success();
}

namespace {
struct VerifyPlanPass : public shale::impl::VerifyPlanPassBase<VerifyPlanPass> {
  using Base::Base;
  void runOnOperation() override {
    DenseMap<std::pair<Operation *, int64_t>, std::string> hazards;
    SymbolTable symbols(getOperation());
    for (auto function : getOperation().getOps<rt::FuncOp>()) {
      for (auto launch : function.getBody().front().getOps<rt::LaunchOp>())
        if (failed(verifyInPlace(launch, symbols, hazards)))
          return signalPassFailure();
      ProgramLiveness liveness;
      if (failed(liveness.run(function)) || failed(verifyOverlap(liveness)))
        return signalPassFailure();
    }
  }
};
} // namespace
