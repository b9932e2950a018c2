//===- ScaleLearningRates.cpp - Learning rates by parameter ---------------===//
#include "dialects/nn/Ops/State.h"
#include "mlir/IR/Builders.h"
#include "passes/annotate/Matching.h"
#include "passes/annotate/Passes.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_SCALELEARNINGRATESPASS
#include "passes/annotate/Passes.h.inc"

/// Marks what one entry matches. Fails after an error if another entry gives a parameter another
/// factor.
static LogicalResult mark(ModuleOp module, StringRef regex, double factor) {
  auto matched = matchParameters(module, regex, "lr-scale");
  if (failed(matched))
    return failure();
  for (nn::StateOp state : *matched) {
    if (std::optional<APFloat> other = state.getLrScale();
        other && other->convertToDouble() != factor)
      return module.emitError("lr-scale: '")
             << regex << "' matches parameter '" << state.getSymName()
             << "', to which another entry gives the factor " << other->convertToDouble();
    state.setLrScaleAttr(Builder(module.getContext()).getF64FloatAttr(factor));
  }
  return success();
}

namespace {
struct ScaleLearningRatesPass : impl::ScaleLearningRatesPassBase<ScaleLearningRatesPass> {
  using ScaleLearningRatesPassBase::ScaleLearningRatesPassBase;
  void runOnOperation() final {
    for (const auto &[regex, factor] : factors.entries)
      if (failed(mark(getOperation(), regex, factor)))
        return signalPassFailure();
  }
};
} // namespace

} // namespace shale
