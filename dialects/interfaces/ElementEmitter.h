//===- ElementEmitter.h - Emits one element of a tensor value -------------===//
//
// Kernels are generated on demand: to emit element `index` of a result, an op
// requests elements of its operands. A row-major linear index is an affine
// function of the kernel's loop dimensions. One of these may run along the lanes
// of a vector; the emitted element is then a vector of consecutive elements.
// The emitter owns the schedule (loops, parallelism, vector width), so one
// description of an op serves every target.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_INTERFACES_ELEMENTEMITTER_H
#define SHALE_INTERFACES_ELEMENTEMITTER_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace shale {

/// constant + sum of coefficient * dimension; terms are sorted by dimension and
/// have no zero coefficient, so that equal functions compare equal.
struct LinearIndex {
  int64_t constant = 0;
  llvm::SmallVector<std::pair<unsigned, int64_t>, 4> terms;

  static LinearIndex dim(unsigned id) { return LinearIndex{0, {{id, 1}}}; }
  LinearIndex plus(const LinearIndex &other) const;
  LinearIndex plus(int64_t value) const;
  LinearIndex times(int64_t factor) const;
  int64_t coefficient(unsigned id) const;
  bool operator<(const LinearIndex &other) const {
    return constant != other.constant ? constant < other.constant : terms < other.terms;
  }
  bool operator==(const LinearIndex &other) const {
    return constant == other.constant && terms == other.terms;
  }
};

/// Linearizes per-dimension indices, row-major.
LinearIndex linearize(llvm::ArrayRef<LinearIndex> indices, llvm::ArrayRef<int64_t> shape);

/// The elements of an operand that element i of a result needs (linear, row-major).
enum class Access {
  Same,    ///< element i
  Rows,    ///< element i / C, where the result has C times as many elements
  Reduces, ///< elements i * C to i * C + C - 1, where the operand has C times as many
  Once,    ///< one other element; no operand element is needed twice
  Folds,   ///< several other elements; no operand element is needed twice
  Any
};

/// The emitter. A method that returns a null value, false or `Retry` has
/// requested a change of the schedule; the caller must return null at once.
class ElementEmitter {
public:
  virtual ~ElementEmitter() = default;

  /// Emits element `index` of `value`, which is defined in the kernel or is one of
  /// its inputs: a scalar if the index does not run along lanes, else possibly a vector.
  virtual mlir::Value emit(mlir::Value value, const LinearIndex &index) = 0;

  /// index = quotient * divisor + remainder, 0 <= remainder < divisor. Both are 0 for the divisor
  /// 0, the size of a tensor without elements, of which none is read.
  bool divide(const LinearIndex &index, int64_t divisor, LinearIndex &quotient,
              LinearIndex &remainder) {
    quotient = divisor == 1 ? index : LinearIndex();
    remainder = LinearIndex();
    return divisor <= 1 || divideBy(index, divisor, quotient, remainder);
  }
  /// Splits a row-major linear index into one index per dimension.
  bool delinearize(const LinearIndex &index, llvm::ArrayRef<int64_t> shape,
                   llvm::SmallVectorImpl<LinearIndex> &indices);

  enum class Within { Always, Never, Sometimes, Retry };
  /// Returns whether lo <= index < hi and sets `relative` to index - lo. For
  /// `Sometimes` it sets `condition`, a scalar i1; `relative` is 0 where it is false.
  virtual Within within(const LinearIndex &index, int64_t lo, int64_t hi, LinearIndex &relative,
                        mlir::Value &condition) = 0;

  /// Emits the index as a number of integer or float type `element`.
  virtual mlir::Value number(const LinearIndex &index, mlir::Type element) = 0;

  /// Sets `inside` to whether `value`, a scalar integer known only at run time, is in [0, size),
  /// and `index` to a dimension that is the value where it is inside, else 0. Equal values share a
  /// dimension. Returns false (retry) if `value` is a vector.
  virtual bool runtimeDim(mlir::Value value, int64_t size, LinearIndex &index,
                          mlir::Value &inside) = 0;

  /// Emits a loop over [0, size) that carries one value; `body` gets the loop's
  /// dimension and the carried value and returns the next one. The carried
  /// value is a vector if `at`, the index being emitted, runs along lanes.
  virtual mlir::Value
  loop(const LinearIndex &at, int64_t size, mlir::Value initial,
       llvm::function_ref<mlir::Value(const LinearIndex &, mlir::Value)> body) = 0;

  /// Returns `value`, as a vector of the current lanes if `at` runs along them.
  virtual mlir::Value widen(const LinearIndex &at, mlir::Value value) = 0;

  virtual mlir::OpBuilder &builder() = 0;

protected:
  /// divide() for divisors from 2 on; `quotient` and `remainder` are 0.
  virtual bool divideBy(const LinearIndex &index, int64_t divisor, LinearIndex &quotient,
                        LinearIndex &remainder) = 0;
};

/// Makes all values vectors if one of them is.
void matchLanes(mlir::OpBuilder &builder, mlir::Location loc,
                llvm::MutableArrayRef<mlir::Value> values);

/// Returns `element`, or a vector of it with the shape of `value` if that is a vector.
mlir::Type likeShape(mlir::Value value, mlir::Type element);

/// Widens a scalar or vector of 16-bit floats to f32, exactly; returns others unchanged.
mlir::Value widen16Bits(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value);

/// Rounds a scalar or vector of f32 to the 16-bit float type `narrow`, to nearest even. Targets
/// lower arith.truncf so that its bits do not depend on the processor; those of a NaN may.
mlir::Value narrowTo16Bits(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                           mlir::Type narrow);

/// Returns the type with which kernels load and store `element`: bytes for booleans,
/// the bits (i16) for 16-bit floats, so that loads and stores are the same on every CPU.
mlir::Type memoryType(mlir::Type element);

/// Builds a constant of a scalar or vector type.
mlir::Value constantLike(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type,
                         double value);

} // namespace shale

#endif // SHALE_INTERFACES_ELEMENTEMITTER_H
