//===- Compute.td - Kernels and library products --------------------------===//
#ifndef SHALE_RT_COMPUTE_TD
#define SHALE_RT_COMPUTE_TD

include "mlir/IR/SymbolInterfaces.td"
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

def RT_GemmOp : RT_Op<"gemm", [DeclareOpInterfaceMethods<CostInterface>, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "Matrix product by a library call";
  let description = [{
    c[b, m, n] = sum over k of a[b, m, k] * b[b, k, n]; `transpose_a` reads a as
    [b, k, m], `transpose_b` reads b as [b, n, k]. Leading dimensions are a batch.
    Products of 16-bit floats are summed in f32, and rounded once if c has a 16-bit float type.
    With `accumulate` the product is added to c.

    Life: made by plan from `nn.matmul` and `nn.matmul_add`; becomes `shale_gemm` in codegen.

    Constraints:
    - (C1) a and b have the same element type, f32 or a 16-bit float type; c has that type or f32;
      ranks are equal and at least 2; batch dimensions are equal.
    - (C2) m, n and k agree.
    - (C3) with `accumulate` c has type f32.

    Example: `rt.gemm %0, %1 transpose_b to %2 : memref<6x4xf32>, memref<8x4xf32> to memref<6x8xf32>`
  }];
  let arguments = (ins RT_Buffer:$a, RT_Buffer:$b, RT_Buffer:$c,
                       UnitAttr:$transpose_a, UnitAttr:$transpose_b, UnitAttr:$accumulate);
  let assemblyFormat = [{
    $a `,` $b (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)? `to` $c
    (`accumulate` $accumulate^)? attr-dict `:` type($a) `,` type($b) `to` type($c)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The number of products, and the sizes of each.
    struct Shape { int64_t batch, m, n, k; };
    Shape getShape();
  }];
}

#endif // SHALE_RT_COMPUTE_TD
