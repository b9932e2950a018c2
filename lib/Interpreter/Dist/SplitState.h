//===- SplitState.h - States whose value is split between ranks -----------===//
#ifndef SHALE_INTERPRETER_DIST_SPLITSTATE_H
#define SHALE_INTERPRETER_DIST_SPLITSTATE_H

#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Interpreter/Program.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace shale::interp {

/// Returns the part of a whole value that `rank` has; the whole value if `layout` is null.
Tensor partOf(Tensor whole, dist::ShardingAttr layout, dist::MeshOp mesh, int64_t rank);

/// Puts a whole value of `shape` together from the ranks' parts in `layout`. `index` returns where
/// element i of a rank's part is in `perRank[rank]`, or -1 if that rank does not have it. Fails
/// after an error at `op` if copies of one element differ; `name` is for the message.
mlir::FailureOr<Tensor> joinParts(nn::StateOp op, llvm::StringRef name,
                                  llvm::ArrayRef<int64_t> shape, dist::ShardingAttr layout,
                                  dist::MeshOp mesh, llvm::ArrayRef<Tensor> perRank,
                                  llvm::function_ref<int64_t(int64_t rank, int64_t i)> index);

/// A state with `dist.sharding`: each rank has one part of its value.
class SplitState {
public:
  /// Returns the split state that `symbol` refers to, if it is one.
  static std::optional<SplitState> of(mlir::func::FuncOp function, mlir::Attribute symbol);

  /// Returns each rank's part of the logical value that `spec` describes but for its shape.
  mlir::FailureOr<std::vector<Tensor>> pack(ValueSpec spec, int64_t ranks,
                                            LogicalValues &inputs) const;
  /// Returns the whole value. Fails after an error if copies of one element differ.
  mlir::FailureOr<Tensor> unpack(llvm::ArrayRef<Tensor> perRank) const;

private:
  mutable nn::StateOp state;
  mutable dist::MeshOp mesh;
  dist::ShardingAttr layout;
};

} // namespace shale::interp

#endif // SHALE_INTERPRETER_DIST_SPLITSTATE_H
