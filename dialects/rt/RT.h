//===- RT.h - The rt dialect: one rank's device program -------------------===//
#ifndef SHALE_RT_RT_H
#define SHALE_RT_RT_H

#include "dialects/interfaces/Interfaces.h"
#include "dialects/nn/NN.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/rt/RTDialect.h.inc"

#include "dialects/rt/RTEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/rt/RTAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/rt/RTTypes.h.inc"

#include "dialects/rt/RTInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialects/rt/RTOps.h.inc"

namespace shale::rt {

// Names of the module's discardable attributes.
inline constexpr llvm::StringLiteral kStateBytesAttr = "rt.state_bytes";
inline constexpr llvm::StringLiteral kArenaBytesAttr = "rt.arena_bytes";
/// On the module: threads per rank assumed by the memory plan.
inline constexpr llvm::StringLiteral kThreadsAttr = "rt.threads";
/// On a started collective: which bucket of the program it belongs to.
inline constexpr llvm::StringLiteral kBucketAttr = "rt.bucket";
inline constexpr llvm::StringLiteral kHostStateBytesAttr = "rt.host_state_bytes";
inline constexpr llvm::StringLiteral kHostArenaBytesAttr = "rt.host_arena_bytes";

/// Where buffers of a block begin, in bytes.
inline constexpr int64_t kAlignment = 64;

/// The module's attribute that says how large a block is.
inline llvm::StringRef blockBytesAttr(Space space, bool host) {
  if (space == Space::State)
    return host ? kHostStateBytesAttr : kStateBytesAttr;
  return host ? kHostArenaBytesAttr : kArenaBytesAttr;
}

/// Bytes of a buffer; truth values take one byte. -1 on overflow.
int64_t bufferBytes(mlir::MemRefType type);

/// The buffer that holds the elements of a tensor.
mlir::MemRefType bufferType(mlir::Type tensor);

/// The tensor that a buffer holds.
mlir::RankedTensorType tensorType(mlir::Type buffer);

/// The symbol of a state's slot: the state itself keeps its own name.
std::string slotName(llvm::StringRef state);

/// Follows views and shards to the allocation.
BufferOp allocationOf(mlir::Value buffer);

} // namespace shale::rt

#endif // SHALE_RT_RT_H
