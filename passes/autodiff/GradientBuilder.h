//===- GradientBuilder.h - Reverse accumulation over a block --------------===//
#ifndef SHALE_PASSES_AUTODIFF_GRADIENTBUILDER_H
#define SHALE_PASSES_AUTODIFF_GRADIENTBUILDER_H

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace shale {

/// Builds gradients of values with respect to which something (the loss) is
/// differentiated. Seed the values it is differentiated from with
/// `accumulate`, call `run` once, then ask for gradients.
///
/// Ops are those of `block` that are there at construction; gradients are
/// appended at `builder`, with `nn.phase` backward and the `nn.scope` of the op
/// they come from.
class GradientBuilder {
public:
  GradientBuilder(mlir::OpBuilder &builder, mlir::Block &block,
                  llvm::ArrayRef<mlir::Value> wanted);

  /// Adds to the gradient of `value`; both have one type.
  void accumulate(mlir::Value value, mlir::Value gradient);
  /// Visits the block in reverse. Fails after one error where ops between a
  /// wanted value and a seed have no gradient: it names all of them, with paths.
  mlir::LogicalResult run();
  /// The gradient, or null where it is zero everywhere.
  mlir::Value gradient(mlir::Value value) const {
    return gradients.lookup(value);
  }
  /// Says why `value` has no gradient, in words for an error: the ops through
  /// which its influence goes, and where that ends.
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
  /// Values that depend on a wanted one in a way that a gradient can follow.
  llvm::DenseSet<mlir::Value> varied;
  llvm::DenseMap<mlir::Value, mlir::Value> gradients;
  /// Ops on a path from a wanted value to a seed that have no gradient.
  llvm::SmallVector<mlir::Operation *> missing;
  /// The op whose gradient is being built; the listener copies its scope.
  mlir::Operation *current = nullptr;
};

} // namespace shale

#endif // SHALE_PASSES_AUTODIFF_GRADIENTBUILDER_H
