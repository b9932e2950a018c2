//===- Loops.h - Building blocks of kernels with a schedule of their own ---===//
#ifndef SHALE_TARGET_CPU_KERNELS_LOOPS_H
#define SHALE_TARGET_CPU_KERNELS_LOOPS_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace shale::cpu {

/// Emits f32 loops and calls of the library's product.
class Loops {
public:
  Loops(mlir::OpBuilder &b, mlir::Location loc, int64_t lanes) : b(b), loc(loc), lanes(lanes) {}

  mlir::Value index(int64_t value);
  mlir::Value real(double value);
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value div(mlir::Value x, mlir::Value y);
  mlir::Value rem(mlir::Value x, mlir::Value y);
  mlir::Value min(mlir::Value x, mlir::Value y);
  mlir::Value max(mlir::Value x, mlir::Value y);

  void forRange(mlir::Value lower, mlir::Value upper, llvm::function_ref<void(mlir::Value)> body);

  /// Elements lower to upper in vectors; the last, masked, is where the mask is
  /// not null. `carried` are values of any type; body returns the next ones.
  using Body = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value at, mlir::Value mask, mlir::ValueRange)>;
  llvm::SmallVector<mlir::Value> vectors(mlir::Value lower, mlir::Value upper, mlir::ValueRange carried, Body body);

  /// `element` is the type of what is in memory where that is not f32; of i1 a vector of truth values is loaded.
  mlir::Value load(mlir::Value memref, mlir::Value at, mlir::Value mask, mlir::Type element = {});
  /// One element, as f32, or a truth value.
  mlir::Value loadScalar(mlir::Value memref, mlir::Value at, mlir::Type element);
  void store(mlir::Value memref, mlir::Value at, mlir::Value mask, mlir::Value value, mlir::Type element = {});
  mlir::Value splat(mlir::Value scalar);
  mlir::VectorType wide() { return mlir::VectorType::get({lanes}, b.getF32Type()); }
  /// Where the mask holds the new value, else the old one.
  mlir::Value keep(mlir::Value mask, mlir::Value next, mlir::Value old);
  mlir::Value sumLanes(mlir::Value vector);
  mlir::Value maxLanes(mlir::Value vector);

  /// Memory of the thread that runs the kernel (shale_scratch); `entry` is its
  /// first block.
  mlir::Value scratch(mlir::Block *entry, int64_t elements);

  struct Matrix {
    mlir::Value memref, offset; ///< elements
    mlir::Value stride;         ///< elements from row to row
  };
  /// c[m, n] = alpha * op(a) op(b) + beta * c on this thread (shale_gemm_thread).
  void gemm(bool transposeA, bool transposeB, mlir::Value m, mlir::Value n, mlir::Value k, double alpha,
            const Matrix &a, const Matrix &bm, double beta, const Matrix &c);

  mlir::OpBuilder &b;
  mlir::Location loc;
  int64_t lanes;

private:
  /// Bytes that the kernel asked for so far, and the constants that say so.
  int64_t scratchBytes = 0;
  llvm::SmallVector<mlir::Operation *> scratchSizes;
};

} // namespace shale::cpu

#endif // SHALE_TARGET_CPU_KERNELS_LOOPS_H
