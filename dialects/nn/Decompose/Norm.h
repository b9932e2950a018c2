//===- Norm.h - Formulas of normalizations ----------------------------------===//
//
// For whole rows (decompositions) and for rows of which each rank has a part (local forms).
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_NN_DECOMPOSE_NORM_H
#define SHALE_NN_DECOMPOSE_NORM_H

#include "dialects/nn/Decompose/Composer.h"

namespace shale::nn {

/// The rows of which means are taken.
struct Rows {
  int64_t columns;                ///< of a whole row
  llvm::ArrayRef<SplitAxis> axes; ///< that split a row; means are of the parts of their ranks
};

// Operands and results are those of the op with the name, all of one element type.
llvm::SmallVector<mlir::Value> layerNorm(Composer &b, const Rows &rows, mlir::ValueRange operands,
                                         double epsilon);
llvm::SmallVector<mlir::Value> layerNormGrad(Composer &b, const Rows &rows,
                                             mlir::ValueRange operands);
llvm::SmallVector<mlir::Value> rmsNorm(Composer &b, const Rows &rows, mlir::ValueRange operands,
                                       double epsilon);
llvm::SmallVector<mlir::Value> rmsNormGrad(Composer &b, const Rows &rows,
                                           mlir::ValueRange operands);

} // namespace shale::nn

#endif // SHALE_NN_DECOMPOSE_NORM_H
