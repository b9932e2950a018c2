//===- IndexEmitter.h - Emits computations with linear indices ------------===//
#ifndef SHALE_CODEGEN_INDEXEMITTER_H
#define SHALE_CODEGEN_INDEXEMITTER_H

#include "lib/Codegen/LoopNest.h"
#include "lib/Codegen/RowForm.h"
#include <optional>

namespace shale {

/// The dimensions of the linear indices in a nest. Emits divisions and tests of such indices, each
/// once per scope; their results are new dimensions.
class IndexEmitter {
public:
  explicit IndexEmitter(LoopNest &nest) : nest(nest), b(nest.b), loc(nest.loc) {}

  struct Dim {
    int64_t size;
    mlir::Value value;
    unsigned depth;
    DimOrigin origin;
    unsigned position;
    llvm::SmallVector<mlir::Value, 1> guards;
  };

  /// Adds a dimension whose value is known in the innermost scope. With a guard, an i1, the value
  /// is in [0, size) only where the guard is true.
  LinearIndex addDim(int64_t size, mlir::Value value, DimOrigin origin, unsigned position,
                     mlir::Value guard = {});
  const Dim &dim(unsigned id) const { return dims[id]; }

  /// Returns the depth of the outermost scope that defines the dimensions of an index.
  unsigned depthOf(const LinearIndex &index) const;
  /// Appends the guards of an index' dimensions, each once.
  void collectGuards(const LinearIndex &index, llvm::SmallVectorImpl<mlir::Value> &guards) const;
  /// Returns the least and the largest value of an index.
  std::pair<int64_t, int64_t> rangeOf(const LinearIndex &index) const;
  /// Replaces quotient * divisor + remainder of emitted divisions by what was divided, so that
  /// equal indices compare equal.
  LinearIndex simplify(LinearIndex index) const;

  /// Emits an index as a value of index type: of a vector's first element.
  mlir::Value materialize(const LinearIndex &index);
  /// Emits a division; returns quotient and remainder.
  std::pair<LinearIndex, LinearIndex> divide(const LinearIndex &index, int64_t divisor);
  /// Emits whether an index is in [lo, hi). Returns the condition, and the index minus lo where it
  /// holds; nothing if the index never is.
  std::optional<std::pair<mlir::Value, LinearIndex>> test(const LinearIndex &index, int64_t lo,
                                                          int64_t hi);
  /// Emits whether a number that is known at run time is in [0, size). Returns the condition, and
  /// the number as a dimension, which is 0 where the condition does not hold.
  std::pair<mlir::Value, LinearIndex> runtimeDim(mlir::Value value, int64_t size);

private:
  struct Division {
    unsigned quotient, remainder; ///< dimensions
    int64_t divisor;
    LinearIndex divided;
  };

  std::optional<LinearIndex> findBlock(const LinearIndex &index, int64_t number, int64_t &size,
                                       LinearIndex &place) const;
  /// Adds a dimension for a value of index type that is emitted at a depth.
  LinearIndex addRuntimeDim(mlir::Value value, int64_t size, unsigned depth);
  std::pair<LinearIndex, LinearIndex> emitDivision(const LinearIndex &index, int64_t divisor);
  std::pair<mlir::Value, LinearIndex> emitTest(const LinearIndex &index, int64_t lo, int64_t hi);

  LoopNest &nest;
  mlir::OpBuilder &b;
  mlir::Location loc;
  std::vector<Dim> dims;
  std::vector<Division> divided;
};

} // namespace shale

#endif // SHALE_CODEGEN_INDEXEMITTER_H
