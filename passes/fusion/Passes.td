//===- Passes.td - Passes of the fusion stage -----------------------------===//
#ifndef SHALE_PASSES_FUSION_TD
#define SHALE_PASSES_FUSION_TD

include "mlir/Pass/PassBase.td"

def DecomposePass : Pass<"shale-decompose", "::mlir::ModuleOp"> {
  let summary = "Says ops that no library and no kernel of their own takes in simpler ops";
  let description = [{
    Every `Decomposable` op that is not an `OwnKernel` is replaced by its
    decomposition, until none is left; results that nobody uses go away.
    With `all`, ops with a kernel of their own are decomposed, too.
  }];
  let options = [Option<"all", "all", "bool", "false", "Decompose ops that have a kernel of their own, too">];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def FusionPass : Pass<"shale-fusion", "::mlir::ModuleOp"> {
  let summary = "Puts ops that become one kernel into one nn.cluster";
  let description = [{
    After it, no `Elementwise` op and no `Indexed` op that moves or computes
    anything is outside of a cluster. A cluster has one domain of R rows and C
    columns: its values have R*C elements or, one for each row, R; anything else is read
    through an index map on the way in. Fusion changes no bits. With
    `singletons` each op becomes a cluster of its own.
  }];
  let options = [Option<"singletons", "singletons", "bool", "false", "One op a cluster">];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

#endif // SHALE_PASSES_FUSION_TD
