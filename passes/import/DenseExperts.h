//===- DenseExperts.h - Experts that compute all tokens -------------------===//
#ifndef SHALE_PASSES_IMPORT_DENSEEXPERTS_H
#define SHALE_PASSES_IMPORT_DENSEEXPERTS_H

#include "mlir/IR/Block.h"

namespace shale::recover {

/// Computes sums over all experts, to which those that a token did not choose add zeros, from the
/// rows of the chosen ones. Returns whether there were any.
bool multiplyChosen(mlir::Block &block);

} // namespace shale::recover

#endif // SHALE_PASSES_IMPORT_DENSEEXPERTS_H
