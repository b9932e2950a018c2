//===- RankMemory.h - The memory of a planned function on N ranks ---------===//
//
// Memory consists of bytes, as in the compiled program. To expose bugs, memory that is not yet
// written, freed or being received reads as NaN.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_INTERPRETER_RANKMEMORY_H
#define SHALE_INTERPRETER_RANKMEMORY_H

#include "dialects/rt/RT.h"
#include "lib/Interpreter/Interpreter.h"

namespace shale::interp {

/// The bytes of all buffers of a function on all ranks, read and written as tensors.
class RankMemory {
public:
  RankMemory(rt::FuncOp function, const Options &options)
      : function(function), ranks(options.ranks), maxBytes(options.maxBytes) {}

  /// Allocates the memory of all ranks: constants have their values, the rest is NaN. Fails, with
  /// an error, if a constant is not supported or the memory exceeds the limit of the options.
  mlir::LogicalResult allocate();

  /// Set what the function reads on a rank: its part of a state by name (nothing happens if the
  /// function has no slot for it), of the input of a number, and a hyper-parameter.
  void setState(int64_t rank, llvm::StringRef state, const Tensor &value);
  void setInput(int64_t rank, int64_t index, const Tensor &value);
  void setHyper(int64_t rank, int64_t index, const Tensor &value);

  /// Return what the function has written on a rank.
  Tensor getState(int64_t rank, llvm::StringRef state, Element element,
                  llvm::ArrayRef<int64_t> shape) const;
  float getMetric(int64_t rank, int64_t index) const;

  Tensor read(int64_t rank, mlir::Value buffer);
  void write(int64_t rank, mlir::Value buffer, const Tensor &value);
  RankValues readAll(mlir::ValueRange buffers);
  void writeAll(mlir::ValueRange buffers, const RankValues &values);
  /// Whether two buffers share bytes on rank 0. Addresses differ between ranks only within slices
  /// of one allocation.
  bool overlap(mlir::Value a, mlir::Value b);

  // On all ranks.

  void copy(mlir::Value source, mlir::Value target);
  void zero(mlir::Value buffer);
  /// Fills a buffer with NaN, so that a read before the next write shows in the results.
  void poison(mlir::Value buffer);
  /// Poisons the receive buffer, except for bytes that it shares with the send buffer.
  void startReceiving(mlir::Value send, mlir::Value recv);

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

    int64_t size() const { return rt::bufferBytes(type); }
  };

  static Bytes &stateOf(Memory &memory, rt::SlotOp slot) {
    return slot.getMemory() == mem::Memory::Host ? memory.hostState : memory.state;
  }
  Span span(int64_t rank, mlir::Value buffer);

  rt::FuncOp function;
  int64_t ranks, maxBytes;
  std::vector<Memory> memory;
};

} // namespace shale::interp

#endif // SHALE_INTERPRETER_RANKMEMORY_H
