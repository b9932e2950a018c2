//===- Function.td - Functions and kernels --------------------------------===//
#ifndef SHALE_RT_FUNCTION_TD
#define SHALE_RT_FUNCTION_TD

include "mlir/Interfaces/ControlFlowInterfaces.td"
include "dialects/rt/RTBase.td"

def RT_FuncOp : RT_Op<"func", [Symbol, IsolatedFromAbove, SingleBlockImplicitTerminator<"ReturnOp">,
                               HasParent<"::mlir::ModuleOp">]> {
  let summary = "A compiled function of the program";
  let description = [{
    Runs its ops in order. It has no arguments: all data that it accesses is in
    `rt.buffer`s. `inputs` are the program's inputs in order, one dictionary each
    (`name`, `binding`, `type` of this rank's part, `batch_dim`, -1 if it is not split,
    and optionally `bound` and `ignored`: values are in [0, bound) or equal `ignored`);
    `hyper` and `metrics` name the floats of these blocks in order. `signature`,
    `arg_attrs` and `res_attrs` are those of the tensor function from which it was
    made, so that the interpreter can run both on the same values.

    Life: made by plan, one per `@step` and `@evaluate`; becomes an `llvm.func`
    of type ShaleFunction (include/shale/Runtime.h) in codegen.

    Constraints:
    - (C1) each entry of `inputs` has a string `name`, a `binding` of include/shale/Words.def, a tensor `type` and an i64 `batch_dim`.
    - (C2) `bound` is a positive integer; `ignored` is an integer and is present only with `bound`.

    Example: see test/dialects/rt/function.mlir
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, ArrayAttr:$inputs,
                       StrArrayAttr:$hyper, StrArrayAttr:$metrics,
                       OptionalAttr<TypeAttrOf<FunctionType>>:$signature,
                       OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `inputs` `=` $inputs `hyper` `=` $hyper `metrics` `=` $metrics attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
}

def RT_ReturnOp : RT_Op<"return", [Pure, Terminator, HasParent<"FuncOp">]> {
  let summary = "Ends a function";
  let description = [{ Life: as `rt.func`. }];
  let assemblyFormat = "attr-dict";
}

def RT_KernelOp : RT_Op<"kernel", [Symbol, IsolatedFromAbove, HasParent<"::mlir::ModuleOp">,
                                   SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "The computation of a launch";
  let description = [{
    A region of `nn` ops from block arguments (the launch's inputs, in order) to
    the yielded results (its outputs, in order). Every value is rounded to its
    declared type. `aliases[i]` is the input whose buffer result i may use, or
    -1; no other output overlaps an input. Equal bodies share one kernel.

    Generated code for it has the ShaleKernel ABI: `args[i]` points to the i-th
    buffer, inputs first, then outputs, dense and row-major; booleans take one byte.
    It computes rows [begin, end) of [0, `rows`). The kernel generator creates
    the `llvm.func` and sets `rows`, `grain` and `function` (its symbol). On a device other than
    the host the symbol is a constant, a ShaleDeviceKernel, and `rows` is the number of blocks.
    `host` is set if the kernel runs on the host of such a device. The
    body is kept for reports until functions are lowered, which removes the op.

    Life: made by plan from each `nn.cluster` and from each single op that has no
    library call; removed by codegen.

    Constraints:
    - (C1) arguments and results are tensors that a buffer can hold.
    - (C2) the yield's operands are the results.
    - (C3) `aliases` has one entry per result: -1 or an argument of the same type, no argument twice.

    Example:
    ```
    rt.kernel @add(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> aliases [0] {
      %0 = nn.add %a, %b : tensor<4xf32>
      rt.yield %0 : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DenseI64ArrayAttr>:$aliases,
                       OptionalAttr<RT_Int>:$rows, OptionalAttr<RT_Int>:$grain,
                       OptionalAttr<FlatSymbolRefAttr>:$function, UnitAttr:$host);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def RT_YieldOp : RT_Op<"yield", [Pure, Terminator, ReturnLike, HasParent<"KernelOp">]> {
  let summary = "Ends a kernel";
  let description = [{ Life: as `rt.kernel`. }];
  let arguments = (ins Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = "attr-dict ($results^ `:` type($results))?";
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
}

#endif // SHALE_RT_FUNCTION_TD
