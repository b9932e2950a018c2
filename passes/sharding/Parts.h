//===- Parts.h - Parameters that become others ----------------------------===//
#ifndef SHALE_PASSES_SHARDING_PARTS_H
#define SHALE_PASSES_SHARDING_PARTS_H

#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/State.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/BitVector.h"

namespace shale {

/// How `dist.plan` of a parameter begins that no tensor axis splits, before the reason.
inline constexpr llvm::StringLiteral kStaysWhole = "whole on each rank: ";

/// Returns the number of ranks that tensor axes of `mesh`, which may be null, have.
inline int64_t tensorRanks(dist::MeshOp mesh) {
  return mesh ? mesh.getRanksThat(dist::splitsValues) : 1;
}

/// Returns the only function of a module, which has a body; null if there is none, or if there are
/// several: all of them would have to change a parameter alike.
mlir::func::FuncOp onlyFunction(mlir::ModuleOp module);

/// Replaces parameters by states that hold parts of them (`nn.part`). Names, aliases, shape and
/// initial value stay with the whole parameter, of which no function reads the value any more.
class PartBuilder {
public:
  explicit PartBuilder(mlir::func::FuncOp function) : function(function) {}

  /// Declares the state `suffix` of the parameter `whole` with the policies of the parameter, and
  /// returns a new argument for it. The part has `size` indices along dimension `dim`, from `begin`
  /// on, of which the last `padding` are none of the parameter.
  mlir::BlockArgument add(mlir::BlockArgument whole, const llvm::Twine &suffix, int64_t dim,
                          int64_t begin, int64_t size, int64_t padding = 0);
  /// Marks a parameter, which nothing uses any more, as divided.
  void retire(mlir::BlockArgument whole);
  /// Removes the arguments of the parameters that were retired.
  void finish();

private:
  mlir::func::FuncOp function;
  llvm::BitVector retired; ///< by number of the argument
};

} // namespace shale

#endif // SHALE_PASSES_SHARDING_PARTS_H
