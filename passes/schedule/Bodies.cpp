//===- Bodies.cpp - The functions that are scheduled ----------------------===//
#include "passes/schedule/Bodies.h"

using namespace mlir;
using namespace shale;

LogicalResult shale::forEachBody(ModuleOp module, llvm::function_ref<void(Block &)> body) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    if (!function.getBody().hasOneBlock())
      return function.emitOpError("must have one block to be scheduled");
    body(function.front());
  }
  return success();
}

LogicalResult shale::checkGatherOptions(ModuleOp module, int64_t prefetch, int64_t mostInFlight) {
  if (prefetch >= 0 && mostInFlight >= 1)
    return success();
  return module.emitError("prefetch must be at least 0 and max-gathers-in-flight at least 1; got ")
         << prefetch << " and " << mostInFlight;
}
