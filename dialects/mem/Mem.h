//===- Mem.h - The mem dialect: memory spaces and recomputation -----------===//
#ifndef SHALE_MEM_MEM_H
#define SHALE_MEM_MEM_H

#include "dialects/interfaces/Interfaces.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/mem/MemDialect.h.inc"

#include "dialects/mem/MemEnums.h.inc"

#define GET_OP_CLASSES
#include "dialects/mem/MemOps.h.inc"

namespace shale::mem {
/// Marks an op whose results are computed again for each interval of use.
inline constexpr llvm::StringLiteral kRecomputeAttr = MemDialect::RecomputeAttrHelper::getNameStr();
/// Marks a recomputation of an op with kRecomputeAttr; in rt, the call that executes it.
inline constexpr llvm::StringLiteral kRecomputedAttr =
    MemDialect::RecomputedAttrHelper::getNameStr();
/// On a cluster, and in rt on its launch: names of the nodes whose values it recomputes.
inline constexpr llvm::StringLiteral kRecomputesAttr =
    MemDialect::RecomputesAttrHelper::getNameStr();
/// Marks an op whose results are copied to host memory after they are computed.
inline constexpr llvm::StringLiteral kOffloadAttr = MemDialect::OffloadAttrHelper::getNameStr();
/// On an nn.state: the memory in which it is kept; device memory without it.
inline constexpr llvm::StringLiteral kSpaceAttr = MemDialect::SpaceAttrHelper::getNameStr();
/// On a function: floating-point operations that recomputation adds.
inline constexpr llvm::StringLiteral kRecomputeFlopsAttr =
    MemDialect::RecomputeFlopsAttrHelper::getNameStr();

/// All memories, in the order of plans and reports.
inline constexpr Memory kMemories[] = {Memory::Device, Memory::Host};

/// One value for each memory.
template <typename T> struct PerMemory {
  T device{}, host{};
  T &operator[](Memory memory) { return memory == Memory::Host ? host : device; }
  const T &operator[](Memory memory) const { return memory == Memory::Host ? host : device; }
};

/// Returns the memory in which a state is kept.
Memory getHome(mlir::Operation *state);
/// Sets the memory in which a state is kept.
void setHome(mlir::Operation *state, Memory memory);
} // namespace shale::mem

#endif // SHALE_MEM_MEM_H
