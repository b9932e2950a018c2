//===- RtMachine.h - Runs the rt dialect on N virtual ranks ---------------===//
//
// Memory consists of bytes, as in the compiled program. To expose bugs, memory that
// is not yet written, freed or being received reads as NaN, and a collective or copy
// is executed only at its wait; without a wait, never. A kernel that overwrites its
// input does so row by row, in a pseudo-random order.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_INTERPRETER_RTMACHINE_H
#define SHALE_INTERPRETER_RTMACHINE_H

#include "dialects/rt/RT.h"
#include "lib/Interpreter/Interpreter.h"

namespace shale::interp {

class RtMachine {
public:
  /// `scratch` is a block of the module in which temporary ops for the interpreter are built.
  RtMachine(rt::FuncOp function, Interpreter &interpreter, mlir::Block *scratch)
      : function(function), interpreter(interpreter), scratch(scratch),
        ranks(interpreter.options.ranks) {}

  /// Allocates the memory of all ranks. Fails after an error.
  mlir::LogicalResult prepare();

  /// Set what the function reads on a rank, after prepare(): its part of a state by name (nothing
  /// happens if the function has no slot for it), of the input of a number, and a hyper-parameter.
  void setState(int64_t rank, llvm::StringRef state, const Tensor &value);
  void setInput(int64_t rank, int64_t index, const Tensor &value);
  void setHyper(int64_t rank, int64_t index, const Tensor &value);

  /// Runs the function once on all ranks. Fails after an error.
  mlir::LogicalResult run();

  /// Return what the function has written on a rank, after run().
  Tensor getState(int64_t rank, llvm::StringRef state, Element element,
                  llvm::ArrayRef<int64_t> shape) const;
  float getMetric(int64_t rank, int64_t index) const;

private:
  using Bytes = std::vector<char>;
  struct Memory {
    Bytes state, arena, hostState, hostArena, hyper, metrics;
    std::vector<Bytes> inputs;
    llvm::StringMap<Bytes> constants;
  };
  struct Span {
    char *bytes;
    mlir::MemRefType type;
  };

  static Bytes &stateOf(Memory &memory, rt::SlotOp slot) {
    return slot.getMemory() == mem::Memory::Host ? memory.hostState : memory.state;
  }
  Span span(int64_t rank, mlir::Value buffer);
  Tensor read(int64_t rank, mlir::Value buffer);
  void write(int64_t rank, mlir::Value buffer, const Tensor &value);
  RankValues readAll(mlir::ValueRange buffers);
  /// Whether two buffers share bytes on rank 0. Addresses differ between ranks only within slices
  /// of one allocation.
  bool overlap(mlir::Value a, mlir::Value b);
  /// Fills a buffer with NaN, so that a read before the next write shows in the results.
  void poison(int64_t rank, mlir::Value buffer);

  mlir::LogicalResult execute(mlir::Operation *op);
  mlir::LogicalResult launch(rt::LaunchOp op);
  /// Runs a kernel with results that overwrite buffers that it reads (InPlace.cpp).
  mlir::LogicalResult launchInPlace(rt::LaunchOp op, mlir::Block &body);
  mlir::LogicalResult gemm(rt::GemmOp op);
  mlir::LogicalResult gemmEpilogue(rt::GemmEpilogueOp op);
  mlir::LogicalResult sdpa(rt::SdpaOp op);
  mlir::LogicalResult sdpaGrad(rt::SdpaGradOp op);
  mlir::LogicalResult finish(mlir::Operation *start);
  /// Runs `op` of the scratch block on the buffers and writes its result.
  mlir::LogicalResult compute(mlir::Operation *op, mlir::ValueRange inputs,
                              mlir::ValueRange outputs);
  void startReceiving(mlir::Value send, mlir::Value recv);

  rt::FuncOp function;
  Interpreter &interpreter;
  mlir::Block *scratch;
  int64_t ranks;
  std::vector<Memory> memory;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<rt::BufferOp>> freedAfter;
};

} // namespace shale::interp

#endif // SHALE_INTERPRETER_RTMACHINE_H
