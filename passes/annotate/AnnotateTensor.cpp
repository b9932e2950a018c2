//===- AnnotateTensor.cpp - Marks parameters that tensor axes split -------===//
#include "dialects/nn/Ops/State.h"
#include "passes/annotate/Matching.h"
#include "passes/annotate/Passes.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_ANNOTATETENSORPASS
#include "passes/annotate/Passes.h.inc"

/// Returns names of matrices, of which a plan might split some.
static std::string exampleNames(ModuleOp module) {
  std::string names;
  int found = 0;
  for (auto state : module.getOps<nn::StateOp>())
    if (state.getRole() == nn::Role::Param && state.getTensorType().getRank() > 1 && found++ < 6)
      names += (names.empty() ? "'" : ", '") + state.getSymName().str() + "'";
  return names;
}

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
    for (const auto &[regex, split] : plan.entries)
      if (failed(mark(module, regex, split)))
        return signalPassFailure();
    dist::MeshOp mesh = dist::getMesh(module);
    int64_t ranks = mesh ? mesh.getRanksOf(dist::AxisKind::Tensor) : 1;
    auto splits = [](nn::StateOp state) {
      auto attr = state->getAttrOfType<dist::TensorSplitAttr>(dist::kTensorAttr);
      return attr && attr.getValue() != dist::TensorSplit::Whole;
    };
    if (ranks > 1 && llvm::none_of(module.getOps<nn::StateOp>(), splits)) {
      module.emitError("the ")
          << ranks << " ranks of the mesh's tensor axes would split nothing: name the parameters "
          << "that they split, as in --tensor 'q_proj|k_proj|v_proj|up=column,o_proj|down=row'; "
          << "this model has " << exampleNames(module);
      signalPassFailure();
    }
  }
};
} // namespace

} // namespace shale
