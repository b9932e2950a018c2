//===- Passes.td - Passes of the code generation stage --------------------===//
#ifndef SHALE_PASSES_CODEGEN_TD
#define SHALE_PASSES_CODEGEN_TD

include "mlir/Pass/PassBase.td"

def ClusterKernelsPass : Pass<"shale-cluster-kernels", "::mlir::ModuleOp"> {
  let summary = "Leaves of a module only the kernels of its clusters";
  let description = [{
    For looking at the kernels of `nn` IR without a plan, and for tests. Each
    different cluster, and each op with a kernel of its own outside of clusters,
    becomes one function: of scf, vector and arith, or with `lower` of LLVM.
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
    `rows`, `grain` and `function`. The code is that of the module's target.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::cf::ControlFlowDialect", "::mlir::func::FuncDialect", "::mlir::affine::AffineDialect",
    "::mlir::ub::UBDialect"
  ];
}

#endif // SHALE_PASSES_CODEGEN_TD
