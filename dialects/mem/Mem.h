//===- Mem.h - The mem dialect: memory spaces and recomputation -----------===//
#ifndef SHALE_MEM_MEM_H
#define SHALE_MEM_MEM_H

#include "dialects/interfaces/Interfaces.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/mem/MemDialect.h.inc"

#define GET_OP_CLASSES
#include "dialects/mem/MemOps.h.inc"

namespace shale::mem {
/// Marks an op whose results are computed again for each interval of use.
inline constexpr llvm::StringLiteral kRecomputeAttr = "mem.recompute";
/// Marks a recomputation of an op with kRecomputeAttr; in rt, the call that executes it.
inline constexpr llvm::StringLiteral kRecomputedAttr = "mem.recomputed";
/// Marks an op whose results are copied to host memory after they are computed.
inline constexpr llvm::StringLiteral kOffloadAttr = "mem.offload";
/// On an nn.state: "host" if the state is kept in host memory.
inline constexpr llvm::StringLiteral kSpaceAttr = "mem.space";
/// On a function: floating-point operations that recomputation adds.
inline constexpr llvm::StringLiteral kRecomputeFlopsAttr = "mem.recompute_flops";
} // namespace shale::mem

#endif // SHALE_MEM_MEM_H
