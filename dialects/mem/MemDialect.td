//===- MemDialect.td - Memory spaces, recomputation and offload -----------===//
#ifndef SHALE_MEM_DIALECT_TD
#define SHALE_MEM_DIALECT_TD

include "mlir/IR/OpBase.td"

def Mem_Dialect : Dialect {
  let name = "mem";
  let summary = "Memory spaces of values, recomputation and offload";
  let description = [{
    | attribute | on | meaning |
    |---|---|---|
    | `mem.recompute` | ops | the results are not kept between intervals of use; `--shale-materialize-recompute` recomputes them |
    | `mem.recomputed` | ops | a recomputation, which reads its operands through `mem.barrier` |
    | `mem.recomputes` | `nn.cluster`, `rt.launch` | names of the model's nodes whose values the kernel recomputes; it may compute other values, too |
    | `mem.offload` | ops | `--shale-materialize-offload` moves the results to host memory |
    | `mem.space = "host"` | `nn.state` | the state is kept in host memory |
    | `mem.recompute_flops` | functions | floating-point operations that recomputation adds |
  }];
  let cppNamespace = "::shale::mem";
  let discardableAttrs = (ins
    "::mlir::UnitAttr":$recompute,
    "::mlir::UnitAttr":$recomputed,
    "::mlir::ArrayAttr":$recomputes,
    "::mlir::UnitAttr":$offload,
    "::mlir::StringAttr":$space,
    "::mlir::IntegerAttr":$recompute_flops
  );
  let hasOperationAttrVerify = 1;
}

#endif // SHALE_MEM_DIALECT_TD
