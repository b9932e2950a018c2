//===- Freeze.cpp - Marks parameters that are not trained -----------------===//
#include "dialects/nn/Ops/State.h"
#include "mlir/IR/Builders.h"
#include "passes/annotate/Matching.h"
#include "passes/annotate/Passes.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_FREEZEPASS
#include "passes/annotate/Passes.h.inc"

namespace {
struct FreezePass : impl::FreezePassBase<FreezePass> {
  using FreezePassBase::FreezePassBase;
  void runOnOperation() final {
    auto matched = matchParameters(getOperation(), freeze, "freeze");
    if (failed(matched))
      return signalPassFailure();
    for (nn::StateOp state : *matched)
      state.setTrainedAttr(BoolAttr::get(&getContext(), false));
    auto states = getOperation().getOps<nn::StateOp>();
    if (llvm::none_of(states, [](nn::StateOp state) { return state.isTrainedParameter(); })) {
      getOperation().emitError("freeze: '") << freeze << "' leaves no parameter to train";
      signalPassFailure();
    }
  }
};
} // namespace

} // namespace shale
