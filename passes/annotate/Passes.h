//===- Passes.h - The annotate stage --------------------------------------===//
#ifndef SHALE_PASSES_ANNOTATE_PASSES_H
#define SHALE_PASSES_ANNOTATE_PASSES_H

#include "lib/Support/PolicyOption.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include <map>
#include <string>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace shale {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/annotate/Passes.h.inc"

struct AnnotateOptions {
  MeshSpec mesh;
  Sharding strategy = Sharding::Full;
  bool reshardAfterForward = true;
  bool syncEveryMicrobatch = true;
  bool keepSingleRank = false;
  WireTypes wire;
  UnitPolicy unitPolicy;
  std::string freeze;  // regular expression; empty: nothing
  std::string noDecay; // regular expression; empty: nothing
  /// By name of a factor in `#nn.update_factors`.
  std::map<std::string, UpdateScales> updateScales;
  std::string optimizer = "adamw";
  OptimizerChoices optimizers; // by parameter
  TensorPlan tensor;           // what tensor axes split
  FloatKind paramDtype = FloatKind::F32, reduceDtype = FloatKind::F32, bufferDtype = FloatKind::F32;
  MasterKind masterDtype = MasterKind::F32;
  MomentKind optimizerDtype = MomentKind::F32;
  ProductKind productDtype = ProductKind::Param;
};

/// Sets the user's choices on the module as attributes.
void buildAnnotatePipeline(mlir::OpPassManager &manager, const AnnotateOptions &options = {});

} // namespace shale

#endif // SHALE_PASSES_ANNOTATE_PASSES_H
