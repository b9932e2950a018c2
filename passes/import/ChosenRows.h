//===- ChosenRows.h - Computes rows of chosen experts ---------------------===//
#ifndef SHALE_PASSES_IMPORT_CHOSENROWS_H
#define SHALE_PASSES_IMPORT_CHOSENROWS_H

#include "dialects/nn/Ops/Matmul.h"
#include "mlir/IR/Builders.h"
#include "passes/import/ExpertPlaces.h"
#include "llvm/ADT/SetVector.h"

namespace shale::nn {
class BroadcastOp;
} // namespace shale::nn

namespace shale::recover {

/// Builds what ops on all tokens and experts compute for the experts that a token chose: rows
/// (token, choice), in order.
class ChosenRows {
public:
  /// Builds before `root`.
  ChosenRows(const Choice &choice, mlir::Operation *root);

  /// Returns the value of shape chosenShape(); null if an op does not work token by token and
  /// expert by expert.
  mlir::Value of(mlir::Value value, Place place);
  /// Returns the results [S, N] of rows that are operand `side` of a matmul with the matrices of
  /// their experts, its other operand; null if the operands have other places.
  mlir::Value multiply(nn::MatmulOp op, unsigned side, Place rows, Place matrices);
  /// Whether matmuls of all tokens are dead, once the root is.
  bool replacesMatmuls() const;
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> perm);
  mlir::OpBuilder &builder() { return b; }
  /// Erases what was built.
  void undo();

private:
  mlir::Value compute(mlir::Value value, Place place, llvm::ArrayRef<int64_t> shape);
  mlir::Value rebuild(mlir::Operation *op, llvm::ArrayRef<Place> places,
                      llvm::ArrayRef<int64_t> shape);
  mlir::Value repeat(mlir::Value value, Place place);
  mlir::Value pick(mlir::Value value, Place place);
  mlir::Value multiply(nn::MatmulOp op, Place place, llvm::ArrayRef<Place> places);
  mlir::Value broadcastOfExperts(nn::BroadcastOp op, Place from, Place to);
  mlir::Value matricesOf(mlir::Value value, Place place, bool &turned, bool isLastContracted);
  /// Returns the chosen experts of all rows, [S].
  mlir::Value experts();

  Choice choice;
  mlir::Operation *root, *before;
  mlir::OpBuilder b;
  mlir::Operation *current; ///< whose scope new ops get
  mlir::Value rowExperts;
  llvm::DenseMap<mlir::Value, std::pair<Place, mlir::Value>> known;
  /// Ops whose results for all experts are made of matmuls that are replaced.
  llvm::SetVector<mlir::Operation *> replaced;
  bool hasMatmuls = false; ///< of rows with matrices of experts
};

} // namespace shale::recover

#endif // SHALE_PASSES_IMPORT_CHOSENROWS_H
