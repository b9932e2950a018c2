//===- VectorEmitter.h - Emits elements as vectors ------------------------===//
#ifndef SHALE_TARGET_CPU_VECTOREMITTER_H
#define SHALE_TARGET_CPU_VECTOREMITTER_H

#include "lib/Codegen/NestEmitter.h"

namespace shale {

/// Emits vectors of `lanes` elements along one dimension, masked where a loop's last vector is
/// partial.
class VectorEmitter final : public NestEmitter {
public:
  VectorEmitter(mlir::OpBuilder &builder, mlir::Location loc, int64_t lanes)
      : NestEmitter(builder, loc), lanes(lanes) {}

  /// Adds a dimension along which lanes run until endLanes.
  LinearIndex addLanes(int64_t size, mlir::Value value, DimOrigin origin, unsigned position);
  void endLanes() { laneDim = std::nullopt; }
  /// Sets the mask of loads and stores along lanes; null for none.
  void setMask(mlir::Value value) { mask = value; }
  mlir::Value currentMask() const { return mask; }
  mlir::VectorType vectorOf(mlir::Type element) const {
    return mlir::VectorType::get({lanes}, element);
  }
  int64_t laneCount() const { return lanes; }

  /// Emits a load of an element of memory that is no input.
  mlir::Value loadElement(mlir::Value memref, mlir::Type element, const LinearIndex &index) {
    return load(memref, element, index);
  }

  mlir::Value number(const LinearIndex &index, mlir::Type element) override;
  mlir::Value widen(const LinearIndex &at, mlir::Value value) override;

private:
  mlir::Value load(mlir::Value memref, mlir::Type element, const LinearIndex &index) override;
  void store(mlir::Value memref, const LinearIndex &index, mlir::Value element) override;
  bool isVector(const LinearIndex &index) const override { return laneStep(index) != 0; }
  int64_t laneStep(const LinearIndex &index) const {
    return laneDim ? index.coefficient(*laneDim) : 0;
  }

  int64_t lanes;
  std::optional<unsigned> laneDim;
  mlir::Value mask;
};

/// Reduces a vector's elements by combining its halves repeatedly: the order depends only on the
/// vector's width.
mlir::Value foldLanes(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value wide,
                      llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> combine);

} // namespace shale

#endif // SHALE_TARGET_CPU_VECTOREMITTER_H
