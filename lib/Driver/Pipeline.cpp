//===- Pipeline.cpp - The stages of a compilation, in order ---------------===//
#include "lib/Driver/Pipeline.h"
#include "passes/annotate/Passes.h"
#include "passes/autodiff/Passes.h"
#include "passes/codegen/Passes.h"
#include "passes/fusion/Passes.h"
#include "passes/import/Passes.h"
#include "passes/memory/Passes.h"
#include "passes/schedule/Passes.h"
#include "passes/sharding/Passes.h"
#include "shale/Runtime.h"

using namespace shale;
using mlir::OpPassManager;

std::vector<Stage> shale::stagesFor(const CompileOptions &o) {
  std::vector<Stage> stages;
  return stages;
}
