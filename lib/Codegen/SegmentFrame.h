//===- SegmentFrame.h - The frame of kernels that visit segments ----------===//
//
// The parts that these kernels share on all targets: the choice by form, the table of segments, the
// walk over the parts of a segment, and the sums. A target derives its kernel, which says how parts
// are mapped to threads and vectors.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_CODEGEN_SEGMENTFRAME_H
#define SHALE_CODEGEN_SEGMENTFRAME_H

#include "lib/Codegen/Arithmetic.h"
#include "lib/Codegen/NestEmitter.h"
#include "lib/Codegen/SegmentForm.h"

namespace shale {

class SegmentFrame : protected Arithmetic {
public:
  virtual ~SegmentFrame() = default;

  /// Emits the kernel. Returns false if an op of it cannot be emitted.
  bool run();

protected:
  using Values = llvm::SmallVector<mlir::Value>;
  using Value = mlir::Value;

  /// `emitter` is used from start() on.
  SegmentFrame(mlir::OpBuilder &b, mlir::Location loc, mlir::Region &body, const SegmentForm &form,
               NestEmitter &emitter)
      : Arithmetic(b, loc), form(form), entries(form), body(body), emitter(emitter) {}

  /// Binds the kernel's memory: the first values of `memory` are its inputs, the next its outputs.
  /// `entry` is its first block. Called by the constructor of the target's class.
  void start(mlir::Block *entry, mlir::ValueRange memory);

  // ---- the part of the target

  virtual void emitElements() = 0;
  virtual void emitSegmentMeans() = 0;
  virtual void emitFactorMeans() = 0;
  virtual void emitReturn() = 0;
  /// Emits the memory of the table of segments, a constant of the kernel.
  virtual Value emitTable() = 0;
  /// Returns x / y. Neither is negative.
  virtual Value div(Value x, Value y) = 0;
  /// Emits an element of the slice as emitElement does, in the target's form: never null.
  virtual Value element(Value value, const LinearIndex &at) = 0;

  struct Segment {
    Value offset, count, at, matrices, rows, columns, number;
  };
  /// Returns the number of elements of a piece of a matrix: a row, or all of it.
  virtual Value pieceSize(const Segment &s) = 0;
  /// Prepares `place` for the elements of a piece, the first of which is `begins` in the slice.
  virtual void enterPiece(const Segment &s, Value piece, Value begins) = 0;
  /// The same for a segment that is no matrix and begins at `first`.
  virtual void enterVector(const Segment &s, Value first) = 0;
  /// The same for a gap.
  virtual void enterGap() {}

  // ---- values

  Value clamp(Value x, Value low, Value high) { return max(low, min(high, x)); }
  Value atLeastOne(Value x) { return max(x, index(1)); }
  /// Return x / size rounded up or down; 0 if x is negative.
  Value ceil(Value x, Value size) { return div(add(max(x, index(0)), sub(size, index(1))), size); }
  Value floor(Value x, Value size) { return div(max(x, index(0)), size); }
  /// Returns an index as f32.
  Value toReal(Value number);
  /// Returns the sum of two floats.
  Value plus(Value x, Value y);
  /// Returns 0 as f64: sums are added up in it.
  Value noSum();
  /// Returns a sum divided by a count, an index, as f32.
  Value mean(Value sum, Value count);
  /// Returns a dimension of a size that is not known. It is never divided or compared.
  LinearIndex dim(Value value);

  // ---- loops and segments

  /// Emits a loop that carries values. `body` returns the next ones.
  Values loop(Value lower, Value upper, int64_t step, mlir::ValueRange carried,
              llvm::function_ref<Values(Value at, mlir::ValueRange carried)> body);

  Value field(Value entry, SegmentTable::Field which);
  Segment segment(Value entry);
  Value isMatrix(const Segment &s) { return less(index(0), s.columns); }

  /// Emits `body` for the parts of a segment or gap in which the elements [from, to) of the slice
  /// lie, one after another: pieces of matrices, or the whole. `place` is set there.
  using Part = llvm::function_ref<Values(Value lower, Value upper, mlir::ValueRange carried)>;
  Values forParts(const Segment &s, Value from, Value to, mlir::ValueRange carried, Part body);

  /// Emits an element; null if that is not possible.
  Value emitElement(Value value, const LinearIndex &at);
  /// Emits what is added up for an element of the slice.
  Value term(const LinearIndex &at);
  /// Emits and stores the elements of all outputs.
  void storeElements(const LinearIndex &at);

  const SegmentForm &form;
  SegmentTable entries;
  /// Memory of the outputs. The arguments of a block may move: shared memory is one.
  llvm::SmallVector<Value> outputs;
  Value shift; ///< the element of the group at which the slice begins
  SegmentPlace place;

private:
  mlir::Region &body;
  NestEmitter &emitter;
  Value table;
  bool works = true;
};

} // namespace shale

#endif // SHALE_CODEGEN_SEGMENTFRAME_H
