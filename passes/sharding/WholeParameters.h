//===- WholeParameters.h - The parameters of a group across ranks ---------===//
#ifndef SHALE_PASSES_SHARDING_WHOLEPARAMETERS_H
#define SHALE_PASSES_SHARDING_WHOLEPARAMETERS_H

#include "mlir/IR/Builders.h"
#include "passes/sharding/Units.h"

namespace shale {
inline namespace sharding {

/// Lets updates that are not elementwise work on the whole parameters of a group, of which each
/// rank has a slice or a part: the functions of GroupUpdate.
class WholeParameters {
public:
  WholeParameters(mlir::OpBuilder &builder, Group &group, const Units &units, dist::MeshOp mesh)
      : builder(builder), group(group), units(units), mesh(mesh) {}

  /// Finds the parts of whole parameters, for gather() and take(). Fails after an error if the
  /// group lacks a part.
  mlir::LogicalResult findWholes();
  /// Finds the parts of whole parameters, for sum(). Fails after an error if other parts are in
  /// another group.
  mlir::LogicalResult findFirstParts();

  /// Adds up 1-D values of which each rank has the part of its slice. After findFirstParts() the
  /// values are means over the segments, of which those of parts become sums over the parameter.
  llvm::SmallVector<mlir::Value> sum(mlir::ValueRange parts);
  llvm::SmallVector<mlir::Value> gather(mlir::Value slice);
  llvm::SmallVector<mlir::Value> divide(mlir::ValueRange matrices,
                                        llvm::function_ref<mlir::Value(mlir::Value)> function);
  mlir::Value take(mlir::ValueRange tensors);

private:
  llvm::SmallVector<mlir::Value> sumOverSlices(mlir::ValueRange parts);
  mlir::Value addParts(mlir::Value means);

  mlir::OpBuilder &builder;
  Group &group;
  const Units &units;
  dist::MeshOp mesh;
  /// The places of the parameters of the group that are one in the model.
  llvm::SmallVector<llvm::SmallVector<int64_t>> wholes;
  /// For each parameter of the group, the first one that is a part of the same parameter.
  llvm::SmallVector<int64_t> firsts;
};

} // namespace sharding
} // namespace shale

#endif // SHALE_PASSES_SHARDING_WHOLEPARAMETERS_H
