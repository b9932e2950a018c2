//===- BufferEmitter.h - Emits buffers for placed values ------------------===//
#ifndef SHALE_PASSES_PLAN_BUFFEREMITTER_H
#define SHALE_PASSES_PLAN_BUFFEREMITTER_H

#include "passes/plan/Placement.h"

namespace shale::nn {
class ConstantOp;
}

namespace shale {

/// Emits the buffers of a program at its top, in the order of their first use, and views of them at
/// the insertion point of `builder`.
class BufferEmitter {
public:
  /// offsets[i] is the arena offset of allocation i, in bytes. `constants` is the number of
  /// constants in the module.
  BufferEmitter(rt::FuncOp program, const Placement &placement, llvm::ArrayRef<int64_t> offsets,
                mlir::OpBuilder &builder, int64_t &constants)
      : program(program), module(program->getParentOfType<mlir::ModuleOp>()), placement(placement),
        offsets(offsets), builder(builder), constants(constants) {}

  /// Returns the memref of a tensor, which has a place.
  mlir::Value bufferOf(mlir::Value tensor) {
    return bufferAt(placement.placeOf(tensor), rt::bufferType(tensor.getType()), tensor.getLoc());
  }
  llvm::SmallVector<mlir::Value> buffersOf(mlir::ValueRange tensors) {
    return llvm::map_to_vector(tensors, [&](mlir::Value tensor) { return bufferOf(tensor); });
  }
  /// Returns the buffer that the library call of an op may overwrite, or null after an error.
  mlir::Value workspaceOf(mlir::Operation *op);
  /// Creates the buffer of a metric that is not computed in its place.
  mlir::Value createMetric(mlir::Location loc, int64_t index, llvm::StringRef name);
  /// Returns a memref of `type` at `offset` in bytes of another one.
  mlir::Value view(mlir::Value source, int64_t offset, mlir::MemRefType type, mlir::Location loc);

private:
  mlir::Value createBuffer(mlir::Location loc, mlir::MemRefType type, rt::Space space,
                           int64_t offset, mlir::IntegerAttr index, mlir::FlatSymbolRefAttr symbol,
                           rt::Category category, llvm::StringRef name, int64_t padding = 0,
                           mem::Memory memory = mem::Memory::Device);
  mlir::Value allocationBuffer(int64_t id);
  /// Returns a memref of `type` at a place.
  mlir::Value bufferAt(const Place &place, mlir::MemRefType type, mlir::Location loc);
  mlir::FlatSymbolRefAttr constantSymbol(nn::ConstantOp constant);

  rt::FuncOp program;
  mlir::ModuleOp module;
  const Placement &placement;
  llvm::ArrayRef<int64_t> offsets;
  mlir::OpBuilder &builder;
  int64_t &constants;
  llvm::DenseMap<int64_t, mlir::Value> buffers; // by allocation
  mlir::Operation *lastBuffer = nullptr;
};

} // namespace shale

#endif // SHALE_PASSES_PLAN_BUFFEREMITTER_H
