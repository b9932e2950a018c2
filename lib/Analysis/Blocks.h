//===- Blocks.h - The blocks of the model and their ops -------------------===//
#ifndef SHALE_ANALYSIS_BLOCKS_H
#define SHALE_ANALYSIS_BLOCKS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include <string>
#include <vector>

namespace shale {

/// The model block of each op of a function with one MLIR block, derived from `nn.scope`.
/// An op with an empty scope is outside of all blocks. An op without a scope is in the
/// block of its users, or else of its operands.
class Blocks {
public:
  Blocks(mlir::func::FuncOp function, std::vector<std::string> names);

  /// Returns the op's block as an index into `names`; -1 outside of all blocks.
  int of(mlir::Operation *op) const {
    auto it = blocks.find(op);
    return it == blocks.end() ? -1 : it->second;
  }
  const std::vector<std::string> names;

private:
  int fromScope(llvm::StringRef scope) const;
  llvm::DenseMap<mlir::Operation *, int> blocks;
};

bool isForward(mlir::Operation *op);
bool isBackward(mlir::Operation *op);

/// Returns the value that `value` is a view of, through any number of views.
mlir::Value viewedValue(mlir::Value value);

} // namespace shale

#endif // SHALE_ANALYSIS_BLOCKS_H
