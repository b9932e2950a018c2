//===- Arithmetic.h - Arithmetic of emitted code --------------------------===//
#ifndef SHALE_CODEGEN_ARITHMETIC_H
#define SHALE_CODEGEN_ARITHMETIC_H

#include "mlir/IR/Builders.h"

namespace shale {

/// Emits arithmetic of indices, which are signed, at the builder's place.
class Arithmetic {
public:
  Arithmetic(mlir::OpBuilder &b, mlir::Location loc) : b(b), loc(loc) {}

  mlir::Value index(int64_t value);
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value min(mlir::Value x, mlir::Value y);
  mlir::Value max(mlir::Value x, mlir::Value y);
  /// Returns the conjunction of two conditions.
  mlir::Value both(mlir::Value x, mlir::Value y);
  /// Whether x < y.
  mlir::Value less(mlir::Value x, mlir::Value y);
  mlir::Value select(mlir::Value condition, mlir::Value yes, mlir::Value no);
  /// Whether the number x comes before y in an order from the largest number on, or from the
  /// smallest one on. Of equal numbers that with the lower index, i or j, does. NaN is larger than
  /// all numbers. 16-bit floats must have been widened.
  mlir::Value comesBefore(mlir::Value x, mlir::Value i, mlir::Value y, mlir::Value j,
                          bool smallest);
  /// Returns an integer as an index.
  mlir::Value toIndex(mlir::Value number);

  mlir::OpBuilder &b;
  mlir::Location loc;
};

} // namespace shale

#endif // SHALE_CODEGEN_ARITHMETIC_H
