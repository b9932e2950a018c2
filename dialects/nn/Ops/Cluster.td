//===- Cluster.td - Ops that become one kernel ----------------------------===//
#ifndef SHALE_NN_CLUSTER_TD
#define SHALE_NN_CLUSTER_TD

include "mlir/Interfaces/ControlFlowInterfaces.td"
include "dialects/nn/NNBase.td"

def NN_ClusterOp : NN_Op<"cluster", [Pure, IsolatedFromAbove, SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "Ops that become one kernel";
  let description = [{
    The region computes the results from block arguments, which are the
    operands in order; it uses no other values. Every value inside is rounded to
    its declared type, so fusion does not change any bits. `aliases[i]` is the
    operand whose buffer result i may reuse, or -1.

    Life: made by fusion, which leaves no elementwise op outside; becomes
    `rt.launch` of a generated kernel.

    Constraints:
    - (C1) block arguments have the operands' types.
    - (C2) the yield's operands have the results' types.
    - (C3) `aliases`, if present, has one entry per result, -1 or an operand of the same type, no operand twice.

    Example: see test/dialects/nn/cluster.mlir
  }];
  let arguments = (ins Variadic<NN_AnyTensor>:$inputs, OptionalAttr<DenseI64ArrayAttr>:$aliases);
  let results = (outs Variadic<NN_AnyTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def NN_YieldOp : NN_Op<"yield", [Pure, Terminator, ReturnLike, HasParent<"ClusterOp">]> {
  let summary = "Ends a cluster";
  let description = [{ Life: as `nn.cluster`. }];
  let arguments = (ins Variadic<NN_AnyTensor>:$results);
  let assemblyFormat = "attr-dict ($results^ `:` type($results))?";
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
}

#endif // SHALE_NN_CLUSTER_TD
