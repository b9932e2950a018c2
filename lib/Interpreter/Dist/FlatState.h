//===- FlatState.h - Packs parameters to flat groups of virtual ranks -----===//
#ifndef SHALE_INTERPRETER_DIST_FLATSTATE_H
#define SHALE_INTERPRETER_DIST_FLATSTATE_H

#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Interpreter/Program.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace shale::interp {

/// The slices of the batch: a rank's slice is the row-major index of its
/// coordinates on the data axes. Without a mesh every rank has its own slice.
struct DataRanks {
  DataRanks(mlir::Operation *op, int64_t ranks);
  int64_t indexOf(int64_t rank) const;

  int64_t count; ///< of slices

private:
  dist::MeshOp mesh;
};

/// A state that holds a group of a unit (`dist.unit` on its nn.state). It
/// consists of the logical values of the group's parameters, or of their
/// moments.
class FlatState {
public:
  static std::optional<FlatState> ofArgument(mlir::func::FuncOp function, unsigned i);
  static std::optional<FlatState> ofResult(mlir::func::FuncOp function, unsigned i);

  /// Returns each rank's piece of the group; padding is zero.
  mlir::FailureOr<std::vector<Tensor>> pack(int64_t ranks, LogicalValues &inputs) const;
  /// Sets the logical values from the ranks' pieces. Fails after an error if
  /// copies of one element differ or padding is not zero.
  mlir::LogicalResult unpack(llvm::ArrayRef<Tensor> perRank, LogicalValues &results) const;

private:
  static std::optional<FlatState> of(mlir::func::FuncOp function, mlir::FlatSymbolRefAttr symbol);
  /// Returns the parameter of a segment. Fails after an error if it is not
  /// declared.
  mlir::FailureOr<nn::StateOp> parameter(dist::SegmentAttr segment) const;
  std::string nameOf(dist::SegmentAttr segment) const;
  std::string suffix() const;
  std::optional<ValuePart> partOf(nn::StateOp param) const;
  llvm::SmallVector<int64_t> shapeOf(dist::SegmentAttr segment, nn::StateOp param) const;
  dist::ShardingAttr layoutOf(dist::SegmentAttr segment, nn::StateOp param) const;
  std::vector<Tensor> summed(llvm::ArrayRef<Tensor> perRank) const;

  mutable nn::StateOp state;
  mutable dist::MeshOp mesh;
  dist::GroupAttr group;
  Element element = Element::F32; // as stored
  bool isCopy = false;
  std::string axis; // axis that the group is sharded on; empty: whole on every rank
  llvm::SmallVector<std::string, 2> partial; // axes on which each rank has its own partial sum
};

} // namespace shale::interp

#endif // SHALE_INTERPRETER_DIST_FLATSTATE_H
