//===- AnnotateTensor.cpp - Marks parameters that tensor axes split -------===//
#include "dialects/nn/Ops/State.h"
#include "passes/annotate/Matching.h"
#include "passes/annotate/Passes.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_ANNOTATETENSORPASS
#include "passes/annotate/Passes.h.inc"

/// Marks what one entry of the plan matches. Fails after an error if another entry has marked a
/// parameter in another way.
static LogicalResult mark(ModuleOp module, StringRef regex, dist::TensorSplit split) {
  auto matched = matchParameters(module, regex, "tensor");
  if (failed(matched))
    return failure();
  auto attr = dist::TensorSplitAttr::get(module.getContext(), split);
  for (nn::StateOp state : *matched) {
    auto other = state->getAttrOfType<dist::TensorSplitAttr>(dist::kTensorAttr);
    if (other && other != attr)
      return module.emitError("tensor: '")
             << regex << "=" << dist::stringifyTensorSplit(split) << "' contradicts another entry, "
             << "which makes parameter '" << state.getSymName() << "' "
             << dist::stringifyTensorSplit(other.getValue());
    state->setAttr(dist::kTensorAttr, attr);
  }
  return success();
}

namespace {
struct AnnotateTensorPass : impl::AnnotateTensorPassBase<AnnotateTensorPass> {
  using AnnotateTensorPassBase::AnnotateTensorPassBase;
  void runOnOperation() final {
    ModuleOp module = getOperation();
    for (const auto &[regex, split] : tensor.entries)
      if (failed(mark(module, regex, split)))
        return signalPassFailure();
  }
};
} // namespace

} // namespace shale
