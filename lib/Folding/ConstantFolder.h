//===- ConstantFolder.h - Computes ops on constants -----------------------===//
#ifndef SHALE_FOLDING_CONSTANTFOLDER_H
#define SHALE_FOLDING_CONSTANTFOLDER_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/DenseMap.h"
#include <map>
#include <set>
#include <vector>

namespace shale {
struct LocalForm;
namespace nn {
class BroadcastOp;
} // namespace nn

/// Computes values whose operands are known, within limits of bytes.
class ConstantFolder {
public:
  /// Replacements are built by `builder`. `limit`: the maximum bytes of one folded value.
  ConstantFolder(mlir::OpBuilder &builder, int64_t limit) : builder(builder), limit(limit) {}

  /// Returns the value as a constant, computed if possible; null otherwise.
  mlir::DenseElementsAttr constantOf(mlir::Value value);
  /// Returns what constantOf returns with size 1 along dimensions in which it is known not to
  /// change, and without computing the whole value; null where constantOf returns null.
  mlir::DenseElementsAttr distinctOf(mlir::Value value);
  /// Returns the result of an op. Replaces an op on constants by its result, if it can be computed
  /// and is not larger than the limit.
  mlir::Value fold(mlir::Operation *op);

private:
  mlir::Value foldBroadcast(nn::BroadcastOp broadcast);
  mlir::DenseElementsAttr compactOf(mlir::Value value);
  mlir::DenseElementsAttr computeCompact(mlir::Operation *op, bool &tooLarge);
  mlir::DenseElementsAttr compute(mlir::Operation *op, LocalForm local,
                                  llvm::ArrayRef<mlir::DenseElementsAttr> operands,
                                  llvm::ArrayRef<mlir::RankedTensorType> types);
  mlir::DenseElementsAttr computeWhole(mlir::Operation *op);
  mlir::Value replace(mlir::Operation *op, mlir::DenseElementsAttr attr);

  mlir::OpBuilder &builder;
  const int64_t limit;
  int64_t foldedBytes = 0;
  llvm::DenseMap<mlir::Operation *, mlir::DenseElementsAttr> computed;
  /// Cached results by op, properties, result type, and operands with their types.
  std::map<std::vector<const void *>, mlir::DenseElementsAttr> answers;
  /// Folded constants that `foldedBytes` includes already.
  std::set<const void *> counted;
};

} // namespace shale

#endif // SHALE_FOLDING_CONSTANTFOLDER_H
