//===- Passes.h - The code generation stage -------------------------------===//
#ifndef SHALE_PASSES_CODEGEN_PASSES_H
#define SHALE_PASSES_CODEGEN_PASSES_H

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace shale {

#define GEN_PASS_DECL
#include "passes/codegen/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/codegen/Passes.h.inc"

} // namespace shale

#endif // SHALE_PASSES_CODEGEN_PASSES_H
