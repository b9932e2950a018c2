//===- Passes.h - The annotate stage --------------------------------------===//
#ifndef SHALE_PASSES_ANNOTATE_PASSES_H
#define SHALE_PASSES_ANNOTATE_PASSES_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include <string>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace shale {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/annotate/Passes.h.inc"

struct AnnotateOptions {
  std::string mesh = "fsdp=1";
  std::string strategy = "full"; // none, optimizer, grad, full, hybrid
  bool reshardAfterForward = true;
  bool syncEveryMicrobatch = true;
  std::string unitPolicy = "block";
  std::string freeze;  // regular expression; empty: nothing
  std::string noDecay; // regular expression; empty: nothing
  std::string paramDtype = "f32", reduceDtype = "f32", bufferDtype = "f32"; // f32, bf16, f16
  std::string masterDtype = "f32";                                          // f32, none
  std::string optimizerDtype = "f32";                                       // f32, bf16
};

/// Sets the user's choices on the module as attributes.
void buildAnnotatePipeline(mlir::OpPassManager &manager, const AnnotateOptions &options = {});

} // namespace shale

#endif // SHALE_PASSES_ANNOTATE_PASSES_H
