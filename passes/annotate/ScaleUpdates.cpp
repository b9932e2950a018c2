//===- ScaleUpdates.cpp - Factors of updates by parameter -----------------===//
#include "dialects/nn/Ops/State.h"
#include "dialects/nn/UpdateFactors.h"
#include "passes/annotate/Matching.h"
#include "passes/annotate/Passes.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_SCALEUPDATESPASS
#include "passes/annotate/Passes.h.inc"

/// Returns the name of the flag of the same meaning, without the dashes.
static std::string flagOf(nn::UpdateFactor factor) {
  std::string name = nn::stringifyUpdateFactor(factor).str();
  llvm::replace(name, '_', '-');
  return name;
}

/// Sets the factor of the parameters that one entry matches. `given` maps parameters to the factors
/// of earlier entries. Fails after an error if an earlier entry, or the module, has another factor.
static LogicalResult mark(ModuleOp module, nn::UpdateFactor factor, StringRef regex, double value,
                          llvm::StringMap<double> &given) {
  auto matched = matchParameters(module, regex, flagOf(factor));
  if (failed(matched))
    return failure();
  for (nn::StateOp state : *matched) {
    auto factors = nn::UpdateFactors::of(state.getFactorsAttr());
    auto [other, isFirst] = given.try_emplace(state.getSymName(), value);
    if (isFirst && factors[factor] != 1)
      other->second = factors[factor];
    if (other->second != value)
      return module.emitError(flagOf(factor))
             << ": '" << regex << "' matches parameter '" << state.getSymName()
             << "', which already has the factor " << other->second;
    factors[factor] = value;
    state.setFactorsAttr(factors.toAttr(module.getContext()));
  }
  return success();
}

namespace {
struct ScaleUpdatesPass : impl::ScaleUpdatesPassBase<ScaleUpdatesPass> {
  using ScaleUpdatesPassBase::ScaleUpdatesPassBase;
  void runOnOperation() final {
    std::optional<nn::UpdateFactor> known = nn::symbolizeUpdateFactor(factor);
    if (!known) {
      getOperation().emitError("shale-scale-updates: there is no factor '") << factor << "'";
      return signalPassFailure();
    }
    llvm::StringMap<double> given;
    for (const auto &[regex, value] : values.entries)
      if (failed(mark(getOperation(), *known, regex, value, given)))
        return signalPassFailure();
  }
};
} // namespace

} // namespace shale
