//===- AnnotateTarget.cpp - Sets the target of a module -------------------===//
#include "dialects/nn/NN.h"
#include "lib/Target/Target.h"
#include "passes/annotate/Passes.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_ANNOTATETARGETPASS
#include "passes/annotate/Passes.h.inc"

namespace {
struct AnnotateTargetPass : impl::AnnotateTargetPassBase<AnnotateTargetPass> {
  using AnnotateTargetPassBase::AnnotateTargetPassBase;
  void runOnOperation() final {
    std::string error;
    const Target *found = findTarget(target, error);
    if (!found) {
      getOperation().emitError(error);
      return signalPassFailure();
    }
    getOperation()->setAttr(nn::kTargetAttr, StringAttr::get(&getContext(), found->getName()));
  }
};
} // namespace

} // namespace shale
