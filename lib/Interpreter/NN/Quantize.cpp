//===- Quantize.cpp - 8-bit floats and their matmuls ----------------------===//
#include "dialects/nn/Ops/Quantize.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"
#include "lib/Interpreter/NN/Quantize.h"
#include <cmath>

using namespace mlir;

namespace shale::interp {

Tensor quantized(const Tensor &operand, Element element, bool asF64) {
  double largest = element == Element::F8E4M3 ? 448 : 57344, magnitude = 0;
  const double *x = operand.floats();
  for (int64_t i = 0; i < operand.size(); ++i)
    magnitude = std::isnan(x[i])        ? NAN
                : std::isnan(magnitude) ? NAN
                                        : std::fmax(magnitude, std::fabs(x[i]));
  auto round = [&](double value) { return asF64 ? value : roundFloat(Element::F32, value); };
  double least = round(nn::kLeastMagnitude);
  double scale = round(largest / (magnitude < least ? least : magnitude));
  double inverse = round(1 / scale);
  Tensor result(operand.element(), operand.shape());
  double *y = result.mutableFloats();
  for (int64_t i = 0; i < operand.size(); ++i) {
    double scaled = round(x[i] * scale);
    y[i] = (asF64 ? scaled : roundFloat(element, scaled)) * inverse;
  }
  return result;
}

static LogicalResult evaluateQuantize(nn::QuantizeOp, Call &call) {
  Tensor &result = call.result();
  std::copy_n(call.operand(0).floats(), result.size(), result.mutableFloats());
  return success(); // the interpreter rounds
}

static LogicalResult evaluateQuantizedMatmul(nn::QuantizedMatmulOp, Call &call) {
  Tensor &result = call.result();
  std::fill_n(result.mutableFloats(), result.size(), 0.0);
  addMatmul(call.operand(0), call.operand(1), /*transposeLhs=*/false, /*transposeRhs=*/true,
            result);
  double scale = call.operand(2).floats()[0] * call.operand(3).floats()[0];
  double *y = result.mutableFloats();
  for (int64_t i = 0; i < result.size(); ++i)
    y[i] *= scale;
  return success();
}

void registerQuantize(Registry &registry) {
  registry.add<nn::QuantizeOp>(evaluateQuantize);
  registry.add<nn::QuantizedMatmulOp>(evaluateQuantizedMatmul);
}

} // namespace shale::interp
