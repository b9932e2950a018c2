//===- AcmePasses.td - A pass outside of Shale ----------------------------===//
include "mlir/Pass/PassBase.td"

def ClipGradientsPass : Pass<"acme-clip-gradients", "mlir::ModuleOp"> {
  let summary = "Limits each element of a gradient before the update";
  let description = [{
    Replaces the gradient that an update reads by its elements between -limit and limit, as PyTorch's
    `clip_grad_value_` does. Runs after autodiff.
  }];
  let options = [Option<"limit", "limit", "double", "1.0", "largest absolute value of an element">];
}
