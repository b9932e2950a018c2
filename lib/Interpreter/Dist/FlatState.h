//===- FlatState.h - Parameters in flat groups, on virtual ranks ----------===//
#ifndef SHALE_INTERPRETER_DIST_FLATSTATE_H
#define SHALE_INTERPRETER_DIST_FLATSTATE_H

#include "dialects/dist/Dist.h"
#include "lib/Interpreter/Program.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace shale::interp {

/// Which slice of the batch a rank has: its coordinates on the data axes,
/// row-major; without a mesh every rank has its own.
struct DataRanks {
  DataRanks(mlir::Operation *op, int64_t ranks);
  int64_t indexOf(int64_t rank) const;

  int64_t count;

private:
  dist::MeshOp mesh;
};

/// A state that holds a group of a unit (`dist.unit` on its nn.state): made of
/// the logical values of its parameters, or of their moments.
class FlatState {
public:
  static std::optional<FlatState> ofArgument(mlir::func::FuncOp function,
                                             unsigned i);
  static std::optional<FlatState> ofResult(mlir::func::FuncOp function,
                                           unsigned i);

  /// Each rank's piece; padding is zero.
  mlir::FailureOr<std::vector<Tensor>> pack(int64_t ranks,
                                            LogicalValues &inputs) const;
  /// Sets the logical values that the ranks' pieces hold. Fails after an error
  /// where copies of one element differ or padding is not zero.
  mlir::LogicalResult unpack(llvm::ArrayRef<Tensor> perRank,
                             LogicalValues &results) const;

private:
  static std::optional<FlatState> of(mlir::func::FuncOp function,
                                     mlir::FlatSymbolRefAttr symbol);
  /// The parameter of a segment; fails after an error where it is not declared.
  mlir::FailureOr<nn::StateOp> parameter(dist::SegmentAttr segment) const;
  std::string nameOf(dist::SegmentAttr segment) const;
  std::vector<Tensor> summed(llvm::ArrayRef<Tensor> perRank) const;
  /// The part of a whole parameter that `rank` has at use.
  Tensor localPart(nn::StateOp parameter, Tensor whole, int64_t rank) const;

  mutable nn::StateOp state;
  mutable dist::MeshOp mesh;
  dist::GroupAttr group;
  Element element = Element::F32; // as stored
  bool isCopy = false;
  std::string axis; // empty: whole on every rank
  llvm::SmallVector<std::string, 2> partial; // axes with a sum of its own each
};

} // namespace shale::interp

#endif // SHALE_INTERPRETER_DIST_FLATSTATE_H
