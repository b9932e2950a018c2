//===- GradientBuilder.h - Reverse accumulation over a block --------------===//
#ifndef SHALE_PASSES_AUTODIFF_GRADIENTBUILDER_H
#define SHALE_PASSES_AUTODIFF_GRADIENTBUILDER_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace shale {

/// Builds the gradients of a value (the loss) with respect to the values
/// `wanted`. Seed the gradient of the loss with `accumulate`, call `run` once,
/// then query `gradient`.
///
/// Differentiates the ops that `block` holds at construction. Inserts gradient
/// ops at `builder`, with `nn.phase` backward and the `nn.scope` of their forward
/// op.
class GradientBuilder {
public:
  GradientBuilder(mlir::OpBuilder &builder, mlir::Block &block, llvm::ArrayRef<mlir::Value> wanted);

  /// Adds `gradient` to the gradient of `value`, which has the same type.
  void accumulate(mlir::Value value, mlir::Value gradient);
  /// Visits the block in reverse. Fails if ops between a wanted value and a seed
  /// have no gradient, after one error that lists them with their paths.
  mlir::LogicalResult run();
  /// Returns the gradient of `value`, or null if it is zero everywhere.
  mlir::Value gradient(mlir::Value value) const { return gradients.lookup(value); }
  /// Returns the reason why `value` has no gradient, as text for an error: the
  /// path of ops that depend on it, up to where the path ends.
  std::string explainMissing(mlir::Value value) const;

private:
  void visit(mlir::Operation *op);
  mlir::Value zeroOf(mlir::Value value);
  std::string explainPath(mlir::Operation *op) const;
  mlir::LogicalResult reportMissing() const;
  void markVaried();

  mlir::OpBuilder &builder;
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::SmallVector<mlir::Value> wanted;
  llvm::SmallVector<mlir::Value> seeds;
  /// Float values that depend on a wanted value through float values.
  llvm::DenseSet<mlir::Value> varied;
  llvm::DenseMap<mlir::Value, mlir::Value> gradients;
  /// Ops on a path from a wanted value to a seed that have no gradient.
  llvm::SmallVector<mlir::Operation *> missing;
  /// The op whose gradient is being built, or null outside of `run`.
  mlir::Operation *current = nullptr;
};

} // namespace shale

#endif // SHALE_PASSES_AUTODIFF_GRADIENTBUILDER_H
