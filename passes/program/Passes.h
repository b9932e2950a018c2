//===- Passes.h - The program stage ---------------------------------------===//
#ifndef SHALE_PASSES_PROGRAM_PASSES_H
#define SHALE_PASSES_PROGRAM_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir {
class OpPassManager;
}

namespace shale {

#define GEN_PASS_DECL
#include "passes/program/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/program/Passes.h.inc"

} // namespace shale

#endif // SHALE_PASSES_PROGRAM_PASSES_H
