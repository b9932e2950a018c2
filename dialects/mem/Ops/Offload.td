//===- Offload.td - Copies between two memories ---------------------------===//
#ifndef SHALE_MEM_OFFLOAD_TD
#define SHALE_MEM_OFFLOAD_TD

include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/interfaces/Interfaces.td"
include "dialects/mem/MemDialect.td"

class Mem_MoveOp<string mnemonic> : Op<Mem_Dialect, mnemonic, [AllTypesMatch<["input", "result"]>, DeclareOpInterfaceMethods<PlacedAtUseInterface>]> {
  let arguments = (ins AnyStaticShapeTensor:$input);
  let results = (outs Res<AnyStaticShapeTensor, "a copy", [MemAlloc]>:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Mem_OffloadOp : Mem_MoveOp<"offload"> {
  let summary = "A value's copy in host memory";
  let description = [{
    The operand is in device memory, the result in host memory. All that it does is
    to take memory for its result: nothing may merge two copies or see through one,
    but a copy that nobody reads is dead.

    Life: made by `--shale-materialize-offload`; schedule makes `mem.start` and
    `mem.wait` of it.

    Constraints:
    - (C1) operand and result have one type.

    Example: `%1 = mem.offload %0 : tensor<4xf32>`
  }];
}

def Mem_ReloadOp : Mem_MoveOp<"reload"> {
  let summary = "A value's copy in device memory";
  let description = [{
    The operand is in host memory, the result in device memory; else as
    `mem.offload`.

    Life: as `mem.offload`.

    Constraints:
    - (C1) operand and result have one type.

    Example: `%1 = mem.reload %0 : tensor<4xf32>`
  }];
}

def Mem_StartOp : Op<Mem_Dialect, "start"> {
  let summary = "Starts a copy into the other memory";
  let description = [{
    A copy into host memory (`to_host`) or into device memory begins; the operand's
    bytes must not change until the `mem.wait` of the result.

    Life: made by schedule from `mem.offload` and `mem.reload`; plan makes a call
    of the runtime of it.

    Constraints:
    - (C1) the result is pending of the operand's type.
    - (C2) the result has exactly one use, a `mem.wait` of the same block.

    Example:
    ```mlir
    %p = mem.start %0 to_host : tensor<4xf32> -> !dist.pending<tensor<4xf32>>
    %1 = mem.wait %p : !dist.pending<tensor<4xf32>> -> tensor<4xf32>
    ```
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, UnitAttr:$to_host);
  let results = (outs AnyType:$pending);
  let assemblyFormat = "$input (`to_host` $to_host^)? attr-dict `:` type($input) `->` type($pending)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The op that ends it.
    WaitOp getWait();
  }];
}

def Mem_WaitOp : Op<Mem_Dialect, "wait"> {
  let summary = "Ends a copy into the other memory";
  let description = [{
    The copy that `mem.start` began.

    Life: as `mem.start`.

    Constraints:
    - (C1) the operand is the result of a `mem.start`, the result of its operand's type.

    Example: see `mem.start`.
  }];
  let arguments = (ins AnyType:$pending);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$pending attr-dict `:` type($pending) `->` type($result)";
  let hasVerifier = 1;
}

#endif // SHALE_MEM_OFFLOAD_TD
