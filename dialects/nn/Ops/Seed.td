//===- Seed.td - Where given gradients begin ------------------------------===//
#ifndef SHALE_NN_SEED_TD
#define SHALE_NN_SEED_TD

include "dialects/nn/NNBase.td"

def NN_SeedOp : NN_Op<"seed", [Pure]> {
  let summary = "The gradient of the loss with respect to itself";
  let description = [{
    The value is 1. Gradients that the model's file computes begin with it, so that
    those of the scaled loss, or of a sum instead of a mean, are computed by another
    value in its place. It is no constant: folding would hide which values depend on it.

    Life: made by import, of the node that the file marks; gone after autodiff.

    Constraints:
    - (C1) the result is a scalar of floats.

    Example: `%0 = nn.seed : tensor<f32>`
  }];
  let results = (outs NN_FloatScalar:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

#endif // SHALE_NN_SEED_TD
