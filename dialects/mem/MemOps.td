//===- MemOps.td - The ops of mem -----------------------------------------===//
#ifndef SHALE_MEM_OPS_TD
#define SHALE_MEM_OPS_TD

include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/interfaces/Interfaces.td"
include "dialects/mem/MemDialect.td"
include "dialects/mem/Ops/Offload.td"

def Mem_BarrierOp : Op<Mem_Dialect, "barrier", [DeclareOpInterfaceMethods<ViewInterface>,
    RangedTypesMatchWith<"one result per operand, of its type", "inputs", "results", "$_self">]> {
  let summary = "Returns its operands, opaque to CSE and folding";
  let description = [{
    Result i is operand i. The op is not foldable and declares that it allocates
    its results. Without it, CSE would merge a recomputation with the original op,
    and the value would be kept. A barrier without uses is dead.

    Life: made by `--shale-materialize-recompute` in front of clones; after plan
    it is an alias.

    Constraints:
    - (C1) there is one result per operand, of its type.

    Example: `%1 = mem.barrier %0 : tensor<4xf32>`
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs);
  let results = (outs Res<Variadic<AnyRankedTensor>, "values of their own", [MemAlloc]>:$results);
  let assemblyFormat = "$inputs attr-dict `:` type($inputs)";
}

#endif // SHALE_MEM_OPS_TD
