//===- BufferAddresses.h - Computes the addresses of buffers --------------===//
#ifndef SHALE_PASSES_PROGRAM_BUFFERADDRESSES_H
#define SHALE_PASSES_PROGRAM_BUFFERADDRESSES_H

#include "passes/program/CallBuilder.h"
#include "passes/program/Program.h"

namespace shale {

/// Computes the addresses of buffers from the arguments of a function. Each one is computed where
/// it is first used.
class BufferAddresses {
public:
  BufferAddresses(mlir::ModuleOp module, CallBuilder &b, const ConstantLayout &constants)
      : module(module), b(b), constants(constants) {}

  /// Returns the address of a buffer for work in `space`. Most buffers are in one memory;
  /// constants, inputs and hyper-parameters are in both.
  mlir::Value of(mlir::Value buffer, ShaleSpace space);

private:
  mlir::Value compute(rt::BufferOp op, ShaleSpace space);
  /// Returns the coordinate of the rank on an axis. The runtime is asked once.
  mlir::Value coordinate(llvm::StringRef axis);
  /// Returns the result of a call that gives an address for the whole rank. It is called once.
  template <typename Call> mlir::Value block();

  mlir::ModuleOp module;
  CallBuilder &b;
  const ConstantLayout &constants;
  llvm::DenseMap<std::pair<mlir::Value, int>, mlir::Value> addresses; // by buffer and space
  llvm::StringMap<mlir::Value> coordinates, blocks;
};

} // namespace shale

#endif // SHALE_PASSES_PROGRAM_BUFFERADDRESSES_H
