//===- Passes.td - Passes of the code generation stage --------------------===//
#ifndef SHALE_PASSES_CODEGEN_TD
#define SHALE_PASSES_CODEGEN_TD

include "mlir/Pass/PassBase.td"

def ClusterKernelsPass : Pass<"shale-cluster-kernels", "::mlir::ModuleOp"> {
  let summary = "Replaces a module by the kernels of its clusters";
  let description = [{
    For inspecting the kernels of `nn` IR without a plan, and for tests. Each
    distinct cluster, and each op outside of clusters with a dedicated kernel,
    becomes one function in scf, vector and arith, or with `lower` in LLVM.

    The kernel computes 16 elements at a time. The remainder is computed under a mask.

    Before:

    ```mlir
    func.func @f(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %z = nn.cluster (%a = %x : tensor<4x8xf32>, %b = %y : tensor<4x8xf32>) -> tensor<4x8xf32> {
        %sum = nn.add %a, %b : tensor<4x8xf32>
        %square = nn.mul %sum, %sum : tensor<4x8xf32>
        nn.yield %square : tensor<4x8xf32>
      }
      return %z : tensor<4x8xf32>
    }
    ```

    After:

    ```mlir
    module {
      func.func @kernel_0(%arg0: memref<32xf32>, %arg1: memref<32xf32>, %arg2: memref<32xf32>, %arg3: index, %arg4: index) {
        ...
        scf.for %arg5 = %arg3 to %2 step %c16_0 {
          %cst = arith.constant dense<0.000000e+00> : vector<16xf32>
          %3 = vector.load %arg0[%arg5] : memref<32xf32>, vector<16xf32>
          %cst_2 = arith.constant dense<0.000000e+00> : vector<16xf32>
          %4 = vector.load %arg1[%arg5] : memref<32xf32>, vector<16xf32>
          %5 = arith.addf %3, %4 : vector<16xf32>
          %6 = arith.mulf %5, %5 : vector<16xf32>
          vector.store %6, %arg2[%arg5] : memref<32xf32>, vector<16xf32>
        }
        ...
        scf.for %arg5 = %2 to %arg4 step %c16_1 {
          ...
          vector.maskedstore %arg2[%arg5], %4, %8 : memref<32xf32>, vector<16xi1>, vector<16xf32>
        }
        return
      }
    }
    ```
  }];
  let options = [
    Option<"lower", "lower", "bool", "false", "Lower to the LLVM dialect">
  ];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::cf::ControlFlowDialect", "::mlir::func::FuncDialect", "::mlir::affine::AffineDialect",
    "::mlir::ub::UBDialect"
  ];
}

def GenerateKernelsPass : Pass<"shale-generate-kernels", "::mlir::ModuleOp"> {
  let summary = "Generates the native function of each rt.kernel";
  let description = [{
    Appends an `llvm.func` of type ShaleKernel for each `rt.kernel` and sets its
    `rows`, `grain` and `function`. The code is generated for the module's target.

    Before:

    ```mlir
    module attributes {nn.target = "cpu:x86-64-v3"} {
      rt.kernel @scale(%x: tensor<64xf32>, %factors: tensor<64xf32>) -> tensor<64xf32> {
        %scaled = nn.mul %x, %factors : tensor<64xf32>
        rt.yield %scaled : tensor<64xf32>
      }
    }
    ```

    After:

    ```mlir
    module attributes {nn.target = "cpu:x86-64-v3"} {
      rt.kernel @scale(%arg0: tensor<64xf32>, %arg1: tensor<64xf32>) -> tensor<64xf32> attributes {function = @kernel.scale, grain = 4096 : i64, rows = 64 : i64} {
        %0 = nn.mul %arg0, %arg1 : tensor<64xf32>
        rt.yield %0 : tensor<64xf32>
      }
      llvm.func @kernel.scale(%arg0: !llvm.ptr, %arg1: i64, %arg2: i64) {
        ...
        llvm.call @kernel.scale_body(%1, %3, %5, %arg1, %arg2) : (!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64) -> ()
        llvm.return
      }
      llvm.func internal @kernel.scale_body(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr, %arg3: i64, %arg4: i64) {
        ...
        %41 = llvm.fmul %37, %40 : vector<8xf32>
    ...
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::cf::ControlFlowDialect", "::mlir::func::FuncDialect", "::mlir::affine::AffineDialect",
    "::mlir::ub::UBDialect"
  ];
}

#endif // SHALE_PASSES_CODEGEN_TD
