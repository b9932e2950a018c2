//===- NoDecay.cpp - Marks parameters without weight decay ----------------===//
#include "dialects/nn/Ops/State.h"
#include "dialects/nn/UpdateFactors.h"
#include "passes/annotate/Matching.h"
#include "passes/annotate/Passes.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_NODECAYPASS
#include "passes/annotate/Passes.h.inc"

namespace {
struct NoDecayPass : impl::NoDecayPassBase<NoDecayPass> {
  using NoDecayPassBase::NoDecayPassBase;
  void runOnOperation() final {
    auto matched = matchParameters(getOperation(), noDecay, "no-decay");
    if (failed(matched))
      return signalPassFailure();
    for (nn::StateOp state : *matched) {
      auto factors = nn::UpdateFactors::of(state.getFactorsAttr());
      factors[nn::UpdateFactor::Decay] = 0;
      state.setFactorsAttr(factors.toAttr(&getContext()));
    }
  }
};
} // namespace

} // namespace shale
