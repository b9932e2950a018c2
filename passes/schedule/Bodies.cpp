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
