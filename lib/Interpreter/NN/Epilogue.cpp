//===- Epilogue.cpp - Matmuls with an epilogue ----------------------------===//
#include "dialects/nn/Ops/Epilogue.h"
#include "dialects/nn/Gelu.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"
#include <cmath>

using namespace mlir;

namespace shale::interp {

static double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(nn::kGeluTanhScale * (x + nn::kGeluTanhCubic * x * x * x)));
}

static double geluDerivative(double x) {
  double t = std::tanh(nn::kGeluTanhScale * (x + nn::kGeluTanhCubic * x * x * x));
  double inner = nn::kGeluTanhScale * (1 + 3 * nn::kGeluTanhCubic * x * x);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
}

static LogicalResult evaluateMatmulEpilogue(nn::MatmulEpilogueOp op, Call &call) {
  const double *lhs = call.operand(0).floats(), *rhs = call.operand(1).floats(),
               *with = call.operand(2).floats();
  int64_t m = call.result(0).dim(0), n = call.result(0).dim(1);
  int64_t k = call.operand(0).dim(op.getTransposeLhs() ? 0 : 1);
  double *y = call.result(0).mutableFloats();
  double *before = op.getBefore() ? call.result(1).mutableFloats() : nullptr;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += lhs[op.getTransposeLhs() ? l * m + i : i * k + l] *
               rhs[op.getTransposeRhs() ? j * k + l : l * n + j];
      int64_t at = i * n + j;
      if (op.getEpilogue() == nn::Epilogue::GeluGrad) {
        y[at] = sum * geluDerivative(with[at]);
        continue;
      }
      sum += with[j];
      y[at] = op.getEpilogue() == nn::Epilogue::Gelu ? gelu(sum) : sum;
      if (before)
        before[at] = sum;
    }
  return success();
}

void registerEpilogue(Registry &registry) {
  registry.add<nn::MatmulEpilogueOp>(evaluateMatmulEpilogue);
}

} // namespace shale::interp
