//===- ExpandMath.cpp - Polynomials in place of math functions ------------===//
#include "lib/Target/ExpandMath.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

LogicalResult shale::expandMath(Operation *root) {
  RewritePatternSet patterns(root->getContext());
  auto all = [](StringRef) { return true; };
  populateMathF32ExpansionPatterns(patterns, all);
  populateMathPolynomialApproximationPatterns(patterns, all);
  if (succeeded(applyPatternsGreedily(root, std::move(patterns),
                                      GreedyRewriteConfig().enableFolding(false))))
    return success();
  return root->emitError("math expansion did not converge");
}
