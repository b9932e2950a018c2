//===- RT.h - The rt dialect: one rank's device program -------------------===//
#ifndef SHALE_RT_RT_H
#define SHALE_RT_RT_H

#include "dialects/interfaces/Interfaces.h"
#include "dialects/mem/Mem.h"
#include "dialects/nn/AttentionSizes.h"
#include "dialects/nn/Epilogue.h"
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
#include "llvm/Support/MathExtras.h"

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

// Names of the discardable attributes, which RTDialect.td lists and describes.
inline constexpr llvm::StringLiteral kStateBytesAttr =
    RTDialect::StateBytesAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kArenaBytesAttr =
    RTDialect::ArenaBytesAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kHostStateBytesAttr =
    RTDialect::HostStateBytesAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kHostArenaBytesAttr =
    RTDialect::HostArenaBytesAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kThreadsAttr = RTDialect::ThreadsAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kAllowTf32Attr = RTDialect::AllowTf32AttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kFastMathAttr = RTDialect::FastMathAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kEncodingAttr = RTDialect::EncodingAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kBucketAttr = RTDialect::BucketAttrHelper::getNameStr();

/// The alignment of buffers in a block, in bytes.
inline constexpr int64_t kAlignment = 64;

/// Returns the name of the module attribute with the size of a block in bytes.
inline llvm::StringRef blockBytesAttr(Space space, mem::Memory memory) {
  bool host = memory == mem::Memory::Host;
  if (space == Space::State)
    return host ? kHostStateBytesAttr : kStateBytesAttr;
  return host ? kHostArenaBytesAttr : kArenaBytesAttr;
}

/// Returns the size of a buffer in bytes, or -1 on overflow. Booleans take one byte.
int64_t bufferBytes(mlir::MemRefType type);

/// Returns the type of the buffer that holds the elements of a tensor type.
mlir::MemRefType bufferType(mlir::Type tensor);

/// Returns the type of the tensor that a buffer type holds.
mlir::RankedTensorType tensorType(mlir::Type buffer);

/// Returns the symbol of a state's slot, which differs from the state's own symbol.
std::string slotName(llvm::StringRef state);
/// Returns the symbol of the state that a slot of that name holds: the inverse of slotName.
llvm::StringRef stateNameOf(llvm::StringRef slot);

/// Follows views and shards from `buffer` to the allocation.
BufferOp allocationOf(mlir::Value buffer);

/// Returns the memory that holds a buffer; the device's if that is unknown.
mem::Memory memoryOf(mlir::Value buffer);

/// Returns the host's memory if the kernel runs on the host, which it does if it writes host
/// memory; otherwise the device's.
mem::Memory kernelMemory(mlir::ValueRange outputs);

} // namespace shale::rt

#endif // SHALE_RT_RT_H
