//===- RtMachine.h - Runs the rt dialect on N virtual ranks ---------------===//
//
// To expose bugs, a collective or copy is executed only at its wait; without a wait,
// never. A kernel that overwrites its input does so row by row, in a pseudo-random
// order.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_INTERPRETER_RTMACHINE_H
#define SHALE_INTERPRETER_RTMACHINE_H

#include "lib/Interpreter/RankMemory.h"

namespace shale::interp {

/// Runs a planned function, op by op, on the memory of all ranks.
class RtMachine {
public:
  /// `scratch` is a block of the module in which temporary ops for the interpreter are built.
  RtMachine(rt::FuncOp function, RankMemory &memory, Interpreter &interpreter, mlir::Block *scratch)
      : function(function), memory(memory), interpreter(interpreter), scratch(scratch),
        ranks(interpreter.options.ranks) {}

  /// Finds the ops after which buffers are free. Fails after an error.
  mlir::LogicalResult prepare();

  /// Runs the function once on all ranks. Fails after an error.
  mlir::LogicalResult run();

private:
  mlir::LogicalResult execute(mlir::Operation *op);
  mlir::LogicalResult launch(rt::LaunchOp op);
  /// Runs a kernel with results that overwrite buffers that it reads (InPlace.cpp).
  mlir::LogicalResult launchInPlace(rt::LaunchOp op, mlir::Block &body);
  mlir::LogicalResult gemm(rt::GemmOp op);
  mlir::LogicalResult gemmEpilogue(rt::GemmEpilogueOp op);
  mlir::LogicalResult groupedGemm(rt::GroupedGemmOp op);
  mlir::LogicalResult sdpa(rt::SdpaOp op);
  mlir::LogicalResult sdpaGrad(rt::SdpaGradOp op);
  mlir::LogicalResult finish(mlir::Operation *start);
  /// Runs `op` of the scratch block on the buffers and writes its result.
  mlir::LogicalResult compute(mlir::Operation *op, mlir::ValueRange inputs,
                              mlir::ValueRange outputs);

  rt::FuncOp function;
  RankMemory &memory;
  Interpreter &interpreter;
  mlir::Block *scratch;
  int64_t ranks;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<rt::BufferOp>> freedAfter;
};

} // namespace shale::interp

#endif // SHALE_INTERPRETER_RTMACHINE_H
