//===- Embedding.cpp - Rows of a table ------------------------------------===//
#include "dialects/nn/Ops/Embedding.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"

using namespace mlir;

namespace shale::interp {

static LogicalResult evaluateEmbedding(nn::EmbeddingOp, Call &call) {
  const Tensor &table = call.operand(0), &indices = call.operand(1);
  int64_t V = table.dim(0), D = table.dim(1);
  double *y = call.result().mutableFloats();
  for (int64_t i = 0; i < indices.size(); ++i, y += D) {
    int64_t v = indices.ints()[i];
    if (v >= 0 && v < V)
      std::copy_n(table.floats() + v * D, D, y);
    else
      std::fill_n(y, D, 0.0);
  }
  return success();
}

static LogicalResult evaluateEmbeddingGrad(nn::EmbeddingGradOp, Call &call) {
  const Tensor &indices = call.operand(0);
  const double *grad = call.operand(1).floats();
  Tensor &result = call.result();
  int64_t V = result.dim(0), D = result.dim(1);
  result.fill(0);
  double *y = result.mutableFloats();
  for (int64_t i = 0; i < indices.size(); ++i, grad += D) {
    int64_t v = indices.ints()[i];
    if (v >= 0 && v < V)
      for (int64_t d = 0; d < D; ++d)
        y[v * D + d] += grad[d];
  }
  return success();
}

void registerEmbedding(Registry &registry) {
  registry.add<nn::EmbeddingOp>(evaluateEmbedding);
  registry.add<nn::EmbeddingGradOp>(evaluateEmbeddingGrad);
}

} // namespace shale::interp
