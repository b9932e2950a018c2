//===- Optimize.cpp - Optimizes LLVM IR of kernels ------------------------===//
#include "lib/Target/Optimize.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"

/// Runs the pipeline that `build` makes with a pass builder.
static void run(llvm::Module &module, llvm::TargetMachine &machine,
                llvm::function_ref<llvm::ModulePassManager(llvm::PassBuilder &)> build) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  llvm::PassBuilder builder(&machine, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  build(builder).run(module, modules);
}

void shale::optimizeModule(llvm::Module &module, llvm::TargetMachine &machine) {
  run(module, machine, [](llvm::PassBuilder &builder) {
    return builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3);
  });
}

void shale::runPasses(llvm::Module &module, llvm::TargetMachine &machine, llvm::StringRef passes) {
  run(module, machine, [&](llvm::PassBuilder &builder) {
    llvm::ModulePassManager manager;
    llvm::cantFail(builder.parsePassPipeline(manager, passes));
    return manager;
  });
}
