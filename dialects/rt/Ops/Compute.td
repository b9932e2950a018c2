//===- Compute.td - Kernels and library matmuls ---------------------------===//
#ifndef SHALE_RT_COMPUTE_TD
#define SHALE_RT_COMPUTE_TD

include "mlir/IR/SymbolInterfaces.td"
include "dialects/nn/EpilogueBase.td"
include "dialects/rt/RTBase.td"

def RT_LaunchOp : RT_Op<"launch", [AttrSizedOperandSegments, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs a kernel on all threads";
  let description = [{
    Life: made by plan; becomes `shale_launch` in codegen.

    Constraints:
    - (C1) `kernel` names an `rt.kernel`; inputs and outputs have the shapes and
      element types of its arguments and results.

    Example: `rt.launch @add(%0, %1) to (%2) : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>`
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel,
      Arg<Variadic<RT_Buffer>, "what is read", [MemRead]>:$inputs,
      Arg<Variadic<RT_Buffer>, "what is written", [MemWrite]>:$outputs);
  let assemblyFormat = [{
    $kernel `(` $inputs `)` `to` ` ` `(` $outputs `)` attr-dict `:` functional-type($inputs, $outputs)
  }];
}

def RT_GemmOp : RT_Op<"gemm", [DeclareOpInterfaceMethods<CostInterface, ["isMatmul"]>, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "Matmul by a library call";
  let description = [{
    c[b, m, n] = sum over k of a[b, m, k] * b[b, k, n]; `transpose_a` reads a as
    [b, k, m], `transpose_b` reads b as [b, n, k]. Leading dimensions are a batch.
    Matmuls of 16-bit floats are summed in f32, and rounded once if c has a 16-bit float type.
    With `accumulate` the matmul is added to c. Matmuls of 8-bit floats are multiplied with both
    `scales` before they are rounded.

    Life: made by plan from `nn.matmul`, `nn.matmul_add` and `nn.quantized_matmul`; becomes `shale_gemm` in codegen.

    Constraints:
    - (C1) a and b have the same element type, f32 or a 16-bit float type; c has that type or f32;
      ranks are equal and at least 2; batch dimensions are equal.
    - (C2) m, n and k agree.
    - (C3) with `accumulate` c has type f32.
    - (C4) a and b may have 8-bit float types, not both f8E5M2, with `transpose_b` and without `transpose_a` and a batch. There are
      then two scales, f32 of rank 0; c is f32 or a 16-bit float. Otherwise there are none.

    Example: `rt.gemm %0, %1 transpose_b to %2 : memref<6x4xf32>, memref<8x4xf32> to memref<6x8xf32>`
  }];
  let arguments = (ins RT_Buffer:$a, RT_Buffer:$b, RT_Buffer:$c, Variadic<RT_Buffer>:$scales,
                       UnitAttr:$transpose_a, UnitAttr:$transpose_b, UnitAttr:$accumulate);
  let assemblyFormat = [{
    $a `,` $b (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)? (`scales` $scales^)? `to` $c
    (`accumulate` $accumulate^)? attr-dict `:` type($a) `,` type($b) (`scales` type($scales)^)? `to` type($c)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The number of matmuls, and the sizes of each.
    struct Shape { int64_t batch, m, n, k; };
    Shape getShape();
  }];
}

def RT_GemmEpilogueOp : RT_Op<"gemm_epilogue", [DeclareOpInterfaceMethods<CostInterface, ["isMatmul"]>, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Matmul with an epilogue, by a library call or by one and a kernel";
  let description = [{
    The results of `nn.matmul_epilogue` of a, b and `with`: c and, if there is a second one, `before`.
    Either the library computes all of it, or a `rt.gemm` writes the matmul to c, and the kernel
    then reads c and `with` and writes c and `before`. The runtime chooses.

    Life: made by plan from `nn.matmul_epilogue`; becomes `shale_gemm_epilogue` in codegen.

    Constraints:
    - (C1) a [m, k], b [k, n], or transposed, and c [m, n] have one 16-bit float type.
    - (C2) `with` and `before` are as in `nn.matmul_epilogue` (C2 and C3).
    - (C3) `kernel` names an `rt.kernel` from c and `with` to c and `before`, which may write c over its first input.

    Example: `rt.gemm_epilogue bias %0, %1 with %2 transpose_b to %3 else @bias : memref<6x4xbf16>, memref<8x4xbf16>, memref<8xbf16> to memref<6x8xbf16>`
  }];
  let arguments = (ins NN_Epilogue:$epilogue, Arg<RT_Buffer, "", [MemRead]>:$a, Arg<RT_Buffer, "", [MemRead]>:$b,
                       Arg<RT_Buffer, "", [MemRead]>:$with, Arg<RT_Buffer, "", [MemWrite]>:$c,
                       Arg<Optional<RT_Buffer>, "", [MemWrite]>:$before,
                       UnitAttr:$transpose_a, UnitAttr:$transpose_b, FlatSymbolRefAttr:$kernel);
  let assemblyFormat = [{
    $epilogue $a `,` $b `with` $with (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)? `to` $c (`,` $before^)?
    `else` $kernel attr-dict `:` type($a) `,` type($b) `,` type($with) `to` type($c) (`,` type($before)^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The sizes of the matmul.
    struct Shape { int64_t m, n, k; };
    Shape getShape();
  }];
}

def RT_GroupedGemmOp : RT_Op<"grouped_gemm", [DeclareOpInterfaceMethods<CostInterface, ["isMatmul"]>]> {
  let summary = "Matmul of groups of rows by library calls";
  let description = [{
    The result of `nn.grouped_matmul` of a, b and the ends of the groups or, if a is transposed, of
    `nn.grouped_matmul_grad`: c. The runtime reads the ends and calls the library for each group. `of` is that of these ops.

    Life: made by plan from these ops; becomes `shale_grouped_gemm` in codegen.

    Constraints:
    - (C1) a [S, k], b [E, k, n], or transposed, ends [E] and c [S, n]; with `transpose_a` a [S, m], b [S, n] and c [E, m, n].
    - (C2) a and b have the same element type, f32 or a 16-bit float type; c has that type or f32; the ends are i32 or i64.

    Example: `rt.grouped_gemm %0, %1 ends %2 to %3 : memref<6x4xf32>, memref<3x4x8xf32>, memref<3xi32> to memref<6x8xf32>`
  }];
  let arguments = (ins Arg<RT_Buffer, "", [MemRead]>:$a, Arg<RT_Buffer, "", [MemRead]>:$b, Arg<RT_Buffer, "", [MemRead]>:$ends,
                       Arg<RT_Buffer, "", [MemWrite]>:$c, UnitAttr:$transpose_a, UnitAttr:$transpose_b, OptionalAttr<I64Attr>:$of);
  let assemblyFormat = [{
    $a `,` $b (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)? `ends` $ends (`of` $of^)? `to` $c attr-dict `:`
    type($a) `,` type($b) `,` type($ends) `to` type($c)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The number of groups, and the sizes of the matmul if one group had all rows.
    struct Shape { int64_t groups, m, n, k; };
    Shape getShape();
  }];
}

def RT_SdpaOp : RT_Op<"sdpa", [DeclareOpInterfaceMethods<CostInterface>]> {
  let summary = "Attention by a library call";
  let description = [{
    The result and the lse of `nn.sdpa` of query, key and value. The call may overwrite
    the workspace.

    Life: made by plan from `nn.sdpa`; becomes `shale_attention` in codegen.

    Constraints:
    - (C1) query [B, T, H, D], key [B, S, G, D], value [B, S, G, E], or one buffer [B, T, H + 2 G, D] with the heads of all three, and
      result [B, T, H, E] have one 16-bit float type, lse [B, H, T] is f32, the workspace is one-dimensional.
    - (C2) H is a positive multiple of G; with `causal`, T = S. The window is positive and comes with `causal`.

    Example: `rt.sdpa %0, %1, %2 causal scale = 2.500000e-01 to %3, %4 workspace %5 : memref<2x8x4x16xbf16>, memref<2x8x2x16xbf16>, memref<2x8x2x16xbf16> to memref<2x8x4x16xbf16>, memref<2x4x8xf32>, memref<64xf32>`
  }];
  let arguments = (ins Arg<Variadic<RT_Buffer>, "", [MemRead]>:$inputs, Arg<RT_Buffer, "", [MemWrite]>:$result,
                       Arg<RT_Buffer, "", [MemWrite]>:$lse, Arg<RT_Buffer, "", [MemWrite]>:$workspace,
                       UnitAttr:$causal, OptionalAttr<I64Attr>:$window, F64Attr:$scale);
  let assemblyFormat = [{
    $inputs (`causal` $causal^)? (`window` `=` $window^)? `scale` `=` $scale `to` $result `,` $lse `workspace` $workspace attr-dict `:`
    type($inputs) `to` type($result) `,` type($lse) `,` type($workspace)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::shale::nn::AttentionSizes getSizes();
    /// Whether query, key and value are one buffer.
    bool hasPackedInputs() { return getInputs().size() == 1; }
  }];
}

def RT_SdpaGradOp : RT_Op<"sdpa_grad", [AttrSizedOperandSegments, AllTypesMatch<["output", "grad"]>, DeclareOpInterfaceMethods<CostInterface>]> {
  let summary = "Gradient of attention by a library call";
  let description = [{
    The results of `nn.sdpa_grad`. The call may overwrite the workspace.

    Life: made by plan from `nn.sdpa_grad`; becomes `shale_attention_gradient` in codegen.

    Constraints:
    - (C1) inputs, output, lse, workspace, `causal` and window are as in `rt.sdpa`; grad has output's type.
    - (C2) the results have the types of query, key and value; or there is one, [B, T, H + 2 G, D] of their element type, and
      T = S and D = E.

    Example: `rt.sdpa_grad %0, %1, %2 from %3, %4, %5 causal deterministic scale = 2.500000e-01 to (%6, %7, %8) workspace %9 : memref<2x8x4x16xbf16>, memref<2x8x2x16xbf16>, memref<2x8x2x16xbf16> from memref<2x8x4x16xbf16>, memref<2x4x8xf32> to (memref<2x8x4x16xbf16>, memref<2x8x2x16xbf16>, memref<2x8x2x16xbf16>), memref<64xf32>`
  }];
  let arguments = (ins Arg<Variadic<RT_Buffer>, "", [MemRead]>:$inputs, Arg<RT_Buffer, "", [MemRead]>:$output,
                       Arg<RT_Buffer, "", [MemRead]>:$lse, Arg<RT_Buffer, "", [MemRead]>:$grad,
                       Arg<Variadic<RT_Buffer>, "", [MemWrite]>:$gradients, Arg<RT_Buffer, "", [MemWrite]>:$workspace,
                       UnitAttr:$causal, OptionalAttr<I64Attr>:$window, UnitAttr:$deterministic, F64Attr:$scale);
  let assemblyFormat = [{
    $inputs `from` $output `,` $lse `,` $grad (`causal` $causal^)? (`window` `=` $window^)?
    (`deterministic` $deterministic^)? `scale` `=` $scale `to` ` ` `(` $gradients `)` `workspace` $workspace attr-dict `:`
    type($inputs) `from` type($output) `,` type($lse) `to` ` ` `(` type($gradients) `)` `,` type($workspace)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::shale::nn::AttentionSizes getSizes();
    /// Whether query, key and value are one buffer.
    bool hasPackedInputs() { return getInputs().size() == 1; }
    /// Whether the heads of all gradients are in one buffer.
    bool hasPackedGradients() { return getGradients().size() == 1; }
  }];
}

#endif // SHALE_RT_COMPUTE_TD
