//===- DividedGradients.h - Gradients of matmuls that are divided ---------===//
#ifndef SHALE_PASSES_SHARDING_DIVIDEDGRADIENTS_H
#define SHALE_PASSES_SHARDING_DIVIDEDGRADIENTS_H

#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Support/OpCopies.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <optional>

namespace shale {

/// The gradients that the model's file computes for a matmul x w + b whose columns are cut. With
/// one tensor for each part, joined along the columns to `columns` [rows, columns], they are
///   columns w^T, x^T columns, and the sum over the rows of `columns`.
struct MatmulGradients {
  nn::ConcatOp parts;
  nn::ReshapeOp flat;   ///< between `parts` and `columns`, or null
  nn::MatmulOp ofInput; ///< null if the file does not have it
  nn::MatmulOp ofWeight;
  nn::ReduceOp ofBias; ///< null without a bias
  unsigned weightResult, biasResult;

  mlir::Value columns() { return flat ? flat.getResult() : parts.getResult(); }
};

/// Whether the function returns a gradient of the parameter that the argument is.
bool hasGivenGradient(mlir::BlockArgument parameter);

/// Finds them for a weight, which nothing else but `matmul` uses, and for a bias, which may be
/// null. The sizes are those of the parts, in order.
std::optional<MatmulGradients> findMatmulGradients(nn::MatmulOp matmul, mlir::BlockArgument weight,
                                                   mlir::BlockArgument bias,
                                                   llvm::ArrayRef<int64_t> sizes);

/// Replaces the gradients by those of the parts of the weight and of the bias, where it has one.
void divideGradients(MatmulGradients &gradients, llvm::ArrayRef<mlir::BlockArgument> weights,
                     llvm::ArrayRef<mlir::BlockArgument> biases);

} // namespace shale

#endif // SHALE_PASSES_SHARDING_DIVIDEDGRADIENTS_H
