//===- Passes.h - The code generation stage -------------------------------===//
#ifndef SHALE_PASSES_CODEGEN_PASSES_H
#define SHALE_PASSES_CODEGEN_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace shale {

#define GEN_PASS_DECL
#include "passes/codegen/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/codegen/Passes.h.inc"

} // namespace shale

#endif // SHALE_PASSES_CODEGEN_PASSES_H
