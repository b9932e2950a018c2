//===- Blocks.h - The blocks of the model, and which ops are theirs -------===//
#ifndef SHALE_PASSES_MEMORY_BLOCKS_H
#define SHALE_PASSES_MEMORY_BLOCKS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include <string>
#include <vector>

namespace shale {

/// The block of each op of a function of one block, told by `nn.scope`; an empty one is
/// the model's own, outside of all blocks. Ops that a pass made without scope are in the
/// block of their users, else of their operands.
class Blocks {
public:
  Blocks(mlir::func::FuncOp function, std::vector<std::string> names);

  /// Index into the names; -1 outside of all.
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

/// The value whose bytes a view shows, through any number of views.
mlir::Value viewedValue(mlir::Value value);

} // namespace shale

#endif // SHALE_PASSES_MEMORY_BLOCKS_H
