//===- Random.cpp - Ops that draw random numbers ---------------------------===//
#include "dialects/nn/Ops/Random.h"
#include "dialects/nn/Philox.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"

using namespace mlir;

namespace shale::interp {

namespace {

LogicalResult evaluateDropout(nn::DropoutOp op, Call &call) {
  auto scalar = [&](unsigned i) { return static_cast<uint64_t>(call.operand(i).ints()[0]); };
  nn::RandomPlace place{scalar(1), scalar(2), scalar(3), static_cast<uint64_t>(op.getId())};
  uint64_t offset = op.getOffset() ? scalar(4) : 0;
  double ratio = op.getRatio().convertToDouble();
  uint32_t threshold = nn::dropThreshold(ratio);
  // The factor is a constant of the element type, as in kernels.
  Tensor factor = Tensor::scalar(call.operand(0).element(), 1 / (1 - ratio));
  if (!call.interpreter.options.asF64)
    factor.roundToElement();

  SmallVector<int64_t> shape(call.operand(0).shape());
  ArrayRef<int64_t> whole = op.getGlobalShape() ? *op.getGlobalShape() : ArrayRef<int64_t>(shape);
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t d = int64_t(shape.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * whole[d + 1];
  const double *input = call.operand(0).floats();
  double *result = call.result().mutableFloats();
  walk(shape, strides, 0, [&](int64_t i, int64_t element) {
    uint32_t word = nn::philox(place.counterOf(offset + element), place.key())[0];
    result[i] = word >= threshold ? input[i] * factor.floats()[0] : 0;
  });
  return success();
}

} // namespace

void registerRandom(Registry &registry) { registry.add<nn::DropoutOp>(evaluateDropout); }

} // namespace shale::interp
