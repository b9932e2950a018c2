//===- Checks.h - Refuses models that would train something else ----------===//
#ifndef SHALE_FRONTEND_ONNX_CHECKS_H
#define SHALE_FRONTEND_ONNX_CHECKS_H

#include "lib/Frontend/ONNX/States.h"

namespace shale::onnx {

/// Fails, with an error, if a gradient would flow where PyTorch stops it. `graph`: the scope of the
/// model's graph. `roots`: the names that the loss is computed from.
mlir::LogicalResult checkStops(ImportContext &context, const NodeSet &needed, const States &states,
                               const Scope &graph, llvm::ArrayRef<llvm::StringRef> roots);

/// Returns the autograd.Function that a node comes from, "Round" of `Round.apply(x)` in a line of
/// its stack trace; empty if there is none.
llvm::StringRef functionOf(const NodeProto &node);

/// A call of a function `forward` that belongs to no module of the model.
struct ForeignForward {
  /// The place of the call in the module: "model.py:12".
  std::string call;
  /// Its line that the node comes from: "model.py:4, 'return (x > 0).float()'".
  std::string source;
};

/// Returns the call of such a function that a node comes from, by its stack trace: it may be that
/// of a torch.autograd.Function whose `apply` has another name (`ste = Round.apply`).
std::optional<ForeignForward> foreignForwardOf(const NodeProto &node);

/// A node that may read another gradient than the file has, and why, for an error.
struct MergedRead {
  const NodeProto *node;
  std::string why;
};

/// Returns the first such node: PyTorch's exporter removes x.detach(), and merges f(x) with
/// f(x.detach()). None if there is none.
/// `assumed`: operations that are assumed to be merged with equal ones.
std::optional<MergedRead> findMergedRead(const NodeSet &needed, const Parameters &parameters,
                                         llvm::ArrayRef<std::string> assumed,
                                         llvm::function_ref<bool(llvm::StringRef)> isVaried);

/// Marks parameters that no gradient of the loss reaches (a mask, a table) as not trained, with a
/// remark.
void freezeUnreached(ImportContext &context, const States &states, mlir::Value loss);

/// Fails, with an error, if the loss depends on a buffer that the module changes in its forward
/// pass, other than by a running statistic: the file has only its first value. `roots`: the names
/// that the loss is computed from.
mlir::LogicalResult checkChangedBuffers(ImportContext &context, const Definitions &definitions,
                                        const NodeSet &needed, const States &states,
                                        llvm::ArrayRef<llvm::StringRef> roots);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_CHECKS_H
