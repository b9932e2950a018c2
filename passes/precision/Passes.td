//===- Passes.td - Types of values, of units and of state -----------------===//
#ifndef SHALE_PRECISION_PASSES_TD
#define SHALE_PRECISION_PASSES_TD

include "mlir/Pass/PassBase.td"

def PrecisionPass : Pass<"shale-precision", "::mlir::ModuleOp"> {
  let summary = "Puts the policy of element types into types and casts";
  let description = [{
    Reads `nn.precision` of the module and asks each op (interface `Precision`)
    in which types it takes and gives floats:

    - a parameter is used in the param type: with a master in f32 through one
      `nn.cast` that every use but the update reads, without a master because its
      state has that type;
    - products, attention, norms and what moves their elements are in the param
      type; element by element everything is computed in f32 and rounded where
      another kind of op, or another phase, reads it; statistics of norms, losses, sums and scalars stay in f32, and so does what
      lies between the last product and the loss;
    - a parameter's gradient is summed in f32, over micro-batches too, and cast to
      the reduce type in front of the update and of the norm, which read the same
      value; where products give the reduce type and there is one micro-batch, they
      round;
    - buffers and the optimizer's state have the types that the policy says.

    A cast stands once a value and type, never as a pair that cancels. The
    partitioner reads off the casts in which type a unit is sent and reduced.
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def VerifyPrecisionPass : Pass<"shale-verify-precision", "::mlir::ModuleOp"> {
  let summary = "Checks that the types of a step are those of its policy";
  let description = [{
    The exit contract of the precision stage, for a module with `nn.precision`:
    states have the types of the policy; every use of a trained parameter but its
    update is in the param type; updates take gradients of the reduce type;
    metrics are f32; no cast undoes another one.
  }];
}

#endif // SHALE_PRECISION_PASSES_TD
