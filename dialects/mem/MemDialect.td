//===- MemDialect.td - In which memory, and whether kept ------------------===//
#ifndef SHALE_MEM_DIALECT_TD
#define SHALE_MEM_DIALECT_TD

include "mlir/IR/OpBase.td"

def Mem_Dialect : Dialect {
  let name = "mem";
  let summary = "In which memory a value is, and whether it is kept";
  let description = [{
    | attribute | on | meaning |
    |---|---|---|
    | `mem.recompute` | ops | the results are not kept between intervals of use: `--shale-materialize-recompute` computes them again |
    | `mem.recomputed` | ops | what computes again; it reads through `mem.barrier` |
    | `mem.offload` | ops | the results go to host memory: `--shale-materialize-offload` moves them |
    | `mem.space = "host"` | `nn.state` | its home is host memory |
    | `mem.recompute_flops` | functions | floating-point operations that recomputation adds |
  }];
  let cppNamespace = "::shale::mem";
  let hasOperationAttrVerify = 1;
}

#endif // SHALE_MEM_DIALECT_TD
