//===- Offload.td - Copies between two memories ---------------------------===//
#ifndef SHALE_MEM_OFFLOAD_TD
#define SHALE_MEM_OFFLOAD_TD

include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/interfaces/Interfaces.td"
include "dialects/mem/MemBase.td"
include "dialects/mem/MemDialect.td"

class Mem_MoveOp<string mnemonic> : Op<Mem_Dialect, mnemonic, [AllTypesMatch<["input", "result"]>, DeclareOpInterfaceMethods<PlacedAtUseInterface>]> {
  let arguments = (ins AnyStaticShapeTensor:$input);
  let results = (outs Res<AnyStaticShapeTensor, "a copy", [MemAlloc]>:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Mem_OffloadOp : Mem_MoveOp<"offload"> {
  let summary = "Copies a value to host memory";
  let description = [{
    The operand is in device memory, the result in host memory. The only effect is
    the allocation of the result: copies are not merged or folded, but a copy
    without uses is dead.

    Life: made by `--shale-materialize-offload`; schedule splits it into
    `mem.start` and `mem.wait`.

    Constraints:
    - (C1) operand and result have one type.

    Example: `%1 = mem.offload %0 : tensor<4xf32>`
  }];
}

def Mem_ReloadOp : Mem_MoveOp<"reload"> {
  let summary = "Copies a value to device memory";
  let description = [{
    The operand is in host memory, the result in device memory; otherwise as
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
    Starts a copy into the memory `target`; the operand is in the other one. Its
    bytes must not change until the `mem.wait` of the result.

    Life: made by schedule from `mem.offload` and `mem.reload`; becomes a runtime
    call in plan.

    Constraints:
    - (C1) the result is pending of the operand's type.
    - (C2) the result has exactly one use, a `mem.wait` in the same block.

    Example:
    ```mlir
    %p = mem.start %0 to host : tensor<4xf32> -> !dist.pending<tensor<4xf32>>
    %1 = mem.wait %p : !dist.pending<tensor<4xf32>> -> tensor<4xf32>
    ```
  }];
  let arguments = (ins AnyStaticShapeTensor:$input, Mem_Memory:$target);
  let results = (outs AnyType:$pending);
  let assemblyFormat = "$input `to` $target attr-dict `:` type($input) `->` type($pending)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the op that waits for the copy.
    WaitOp getWait();
  }];
}

def Mem_WaitOp : Op<Mem_Dialect, "wait"> {
  let summary = "Waits for a copy into the other memory";
  let description = [{
    The result is the copy that `mem.start` started.

    Life: as `mem.start`.

    Constraints:
    - (C1) the operand is the result of a `mem.start`; the result has the type of that op's operand.

    Example: see `mem.start`.
  }];
  let arguments = (ins AnyType:$pending);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$pending attr-dict `:` type($pending) `->` type($result)";
  let hasVerifier = 1;
}

#endif // SHALE_MEM_OFFLOAD_TD
