//===- Passes.td - Passes of the program stage ----------------------------===//
#ifndef SHALE_PASSES_PROGRAM_TD
#define SHALE_PASSES_PROGRAM_TD

include "mlir/Pass/PassBase.td"

def LowerProgramPass : Pass<"shale-lower-program", "::mlir::ModuleOp"> {
  let summary = "Lowers rt functions to runtime calls and defines the tables of the program";
  let description = [{
    Each `rt.func @NAME` becomes `llvm.func @shale_NAME` of type ShaleFunction, with
    one call of include/shale/Runtime.h per op. `shale_program` is defined from the
    module's states, units, mesh and plan. Assumes that every `rt.kernel` has code
    (`rows`, `grain`, `function`). Erases all ops outside of the LLVM dialect.

    The arena is `%arg2`. Only the table of the mesh is shown.

    Before:

    ```mlir
    module attributes {nn.optimizer = "sgd", rt.arena_bytes = 64 : i64} {
      dist.mesh @mesh <[shard "fsdp"=2]>
      rt.func @step inputs = [] hyper = [] metrics = [] {
        %x = rt.buffer arena activations "x" : memref<4x4xf32>
        rt.zero %x : memref<4x4xf32>
        %token = rt.collective all_reduce %x to %x site = 0 axis = "fsdp" name = "x" : memref<4x4xf32> to memref<4x4xf32>
        rt.wait %token
      }
    }
    ```

    After:

    ```mlir
    ...
      llvm.func @shale_step(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr, %arg3: !llvm.ptr, %arg4: !llvm.ptr, %arg5: !llvm.ptr) {
        ...
        llvm.call @shale_zero(%arg0, %arg2, %2) : (!llvm.ptr, !llvm.ptr, i64) -> ()
        ...
        llvm.call @shale_start(%arg0, %3, %arg2, %arg2, %4, %5) : (!llvm.ptr, i32, !llvm.ptr, !llvm.ptr, i64, i32) -> ()
        %6 = llvm.mlir.constant(0 : i32) : i32
        llvm.call @shale_wait(%arg0, %6) : (!llvm.ptr, i32) -> ()
        llvm.return
      }
      ...
      llvm.mlir.global private constant @shale_text_5("fsdp\00") {addr_space = 0 : i32}
      llvm.mlir.global private constant @shale_axes_0() {addr_space = 0 : i32} : !llvm.array<1 x struct<(ptr, i64, i32)>> {
    ...
    ```
  }];
  let options = [
    Option<"describe", "describe", "std::string", "\"\"", "Text that the program's --describe ends with">,
    Option<"folder", "folder", "std::string", "\"\"", "The folder of the program, which paths of weights are relative to if the model lies in it or below it; empty: they are absolute">,
    Option<"relativePaths", "relative-paths", "bool", "false", "Whether they are relative to it wherever the model lies">,
    Option<"hostLimit", "host-limit", "int64_t", "0", "Bytes of host memory that a rank may take; 0: no limit">,
    Option<"totalLimit", "total-limit", "int64_t", "0", "Bytes of both memories that a rank may take; 0: no limit">
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // SHALE_PASSES_PROGRAM_TD
