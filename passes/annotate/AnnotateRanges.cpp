//===- AnnotateRanges.cpp - Sets the ranges of integer inputs -------------===//
#include "dialects/nn/NN.h"
#include "lib/Analysis/InputRanges.h"
#include "passes/annotate/Passes.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_ANNOTATERANGESPASS
#include "passes/annotate/Passes.h.inc"

static void annotateRanges(func::FuncOp function) {
  Builder builder(function.getContext());
  for (auto [index, range] : llvm::enumerate(inputRanges(function))) {
    auto role = function.getArgAttrOfType<nn::RoleAttr>(index, nn::kRoleAttr);
    bool input = role && (role.getValue() == nn::Role::Input || role.getValue() == nn::Role::Label);
    if (!input || !range || range->size < 1)
      continue;
    function.setArgAttr(index, nn::kBoundAttr, builder.getI64IntegerAttr(range->size));
    if (range->also && (*range->also < 0 || *range->also >= range->size))
      function.setArgAttr(index, nn::kIgnoredAttr, builder.getI64IntegerAttr(*range->also));
  }
}

namespace {
struct AnnotateRangesPass : impl::AnnotateRangesPassBase<AnnotateRangesPass> {
  using AnnotateRangesPassBase::AnnotateRangesPassBase;
  void runOnOperation() final {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal())
        annotateRanges(function);
  }
};
} // namespace

} // namespace shale
