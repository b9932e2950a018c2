//===- Loops.h - Building blocks of dedicated kernels ---------------------===//
#ifndef SHALE_TARGET_CPU_KERNELS_LOOPS_H
#define SHALE_TARGET_CPU_KERNELS_LOOPS_H

#include "lib/Codegen/Arithmetic.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace shale::cpu {

/// Emits f32 loops and calls of the runtime's matmul.
class Loops : public Arithmetic {
public:
  Loops(mlir::OpBuilder &b, mlir::Location loc, int64_t lanes) : Arithmetic(b, loc), lanes(lanes) {}

  mlir::Value real(double value);
  /// Return the quotient and the remainder of indices that are not negative.
  mlir::Value div(mlir::Value x, mlir::Value y);
  mlir::Value rem(mlir::Value x, mlir::Value y);

  void forRange(mlir::Value lower, mlir::Value upper, llvm::function_ref<void(mlir::Value)> body);

  /// Emits loops over the elements [lower, upper) in vectors. `mask` is null except for
  /// the last, partial vector. `carried` are values of any type; `body` returns the next ones.
  using Body = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value at, mlir::Value mask,
                                                                 mlir::ValueRange)>;
  llvm::SmallVector<mlir::Value> vectors(mlir::Value lower, mlir::Value upper,
                                         mlir::ValueRange carried, Body body);

  /// Loads a vector as f32. `element` is the type in memory if it is not f32; for i1 the result is
  /// a vector of i1.
  mlir::Value load(mlir::Value memref, mlir::Value at, mlir::Value mask, mlir::Type element = {});
  /// Loads one element as f32, or as i1 if `element` is i1.
  mlir::Value loadScalar(mlir::Value memref, mlir::Value at, mlir::Type element);
  void store(mlir::Value memref, mlir::Value at, mlir::Value mask, mlir::Value value,
             mlir::Type element = {});
  /// Stores 0 to elements [from, to) of an f32 memref.
  void zero(mlir::Value memref, mlir::Value from, mlir::Value to);
  /// Adds `count` elements of type `element` at `from` of `source` to those at `to` of the f32
  /// memref `target`.
  void addInto(mlir::Value target, mlir::Value to, mlir::Value source, mlir::Value from,
               int64_t count, mlir::Type element);
  /// Whether lower <= x < upper, signed.
  mlir::Value within(mlir::Value x, mlir::Value lower, mlir::Value upper);
  mlir::Value splat(mlir::Value scalar);
  mlir::VectorType wide() { return mlir::VectorType::get({lanes}, b.getF32Type()); }
  /// Returns `next` where the mask is set or null, else `old`.
  mlir::Value keep(mlir::Value mask, mlir::Value next, mlir::Value old);
  /// Return the sum and the largest of a vector's elements. Halves are added to each other.
  mlir::Value sumLanes(mlir::Value vector);
  mlir::Value maxLanes(mlir::Value vector);

  /// Returns constant data of the kernel. `what` tells it from the kernel's other constants.
  mlir::Value constant(llvm::StringRef what, mlir::DenseElementsAttr values);

  /// Returns scratch of the thread that runs the kernel (shale_scratch), a memref of
  /// `elements` f32. `entry` is the kernel's first block.
  mlir::Value scratch(mlir::Block *entry, int64_t elements);

  struct Matrix {
    mlir::Value memref, offset; ///< the offset is in elements
    mlir::Value stride;         ///< elements from row to row
  };
  /// Emits c[m, n] = alpha * op(a) op(b) + beta * c on this thread (shale_gemm_thread).
  void gemm(bool transposeA, bool transposeB, mlir::Value m, mlir::Value n, mlir::Value k,
            double alpha, const Matrix &a, const Matrix &bm, double beta, const Matrix &c);

  int64_t lanes;

private:
  /// Bytes of scratch that the kernel uses so far, and the constants that hold this size.
  int64_t scratchBytes = 0;
  llvm::SmallVector<mlir::Operation *> scratchSizes;
};

} // namespace shale::cpu

#endif // SHALE_TARGET_CPU_KERNELS_LOOPS_H
