//===- Passes.td - From rt to functions and tables ------------------------===//
#ifndef SHALE_PASSES_PROGRAM_TD
#define SHALE_PASSES_PROGRAM_TD

include "mlir/Pass/PassBase.td"

def LowerProgramPass : Pass<"shale-lower-program", "::mlir::ModuleOp"> {
  let summary = "Functions of rt become calls of the runtime; the tables of the program";
  let description = [{
    Each `rt.func @NAME` becomes `llvm.func @shale_NAME` of type ShaleFunction, one
    call of include/shale/Runtime.h an op; `shale_program` is defined from the
    module's states, units, mesh and plan. Assumes that every `rt.kernel`
    has code (`rows`, `grain`, `function`). Everything that is not of the LLVM
    dialect is gone afterwards.
  }];
  let options = [
    Option<"describe", "describe", "std::string", "\"\"", "Text that the program's --describe ends with">
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // SHALE_PASSES_PROGRAM_TD
