//===- AcmeOps.td - A dialect outside of Shale ----------------------------===//
#ifndef ACME_OPS_TD
#define ACME_OPS_TD

include "dialects/nn/NNBase.td"

def Acme_Dialect : Dialect {
  let name = "acme";
  let cppNamespace = "::acme";
  let summary = "Ops of a company's own models";
}

def Acme_SnakeOp : Op<Acme_Dialect, "snake",
    [Pure, SameOperandsAndResultType, NN_ElementwiseOp, NN_ShardedAlike, NN_Follows, NN_Differentiable]> {
  let summary = "Periodic activation";
  let description = [{
    Each element becomes x + sin(alpha x)^2 / alpha (Ziyin et al., arXiv 2006.08195).

    - (C1) `alpha` is positive.

    Example: `%1 = acme.snake %0 alpha = 0.5 : tensor<4x8xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$input, F64Attr:$alpha);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input `alpha` `=` $alpha attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif // ACME_OPS_TD
