//===- Random.cpp - Ops that draw random numbers ---------------------------===//
#include "dialects/nn/Ops/Random.h"
#include "dialects/nn/Philox.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"

using namespace mlir;

namespace shale::interp {

namespace {

/// Calls `visit(i, word)` with the word that each element i of the result draws. `first`: the
/// operand that is the seed.
template <typename OpT>
void drawWords(OpT op, Call &call, unsigned first,
               llvm::function_ref<void(int64_t, uint32_t)> visit) {
  auto scalar = [&](unsigned i) {
    return static_cast<uint64_t>(call.operand(first + i).ints()[0]);
  };
  nn::RandomPlace place{scalar(0), scalar(1), scalar(2), static_cast<uint64_t>(op.getId())};
  uint64_t offset = op.getOffset() ? scalar(3) : 0;
  SmallVector<int64_t> shape(call.result().shape());
  ArrayRef<int64_t> whole = op.getGlobalShape() ? *op.getGlobalShape() : ArrayRef<int64_t>(shape);
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t d = int64_t(shape.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * whole[d + 1];
  walk(shape, strides, 0, [&](int64_t i, int64_t element) {
    visit(i, nn::philox(place.counterOf(offset + element), place.key())[0]);
  });
}

LogicalResult evaluateDropout(nn::DropoutOp op, Call &call) {
  double ratio = op.getRatio().convertToDouble();
  uint32_t threshold = nn::dropThreshold(ratio);
  // The factor is a constant of the element type, as in kernels.
  Tensor factor = Tensor::scalar(call.operand(0).element(), 1 / (1 - ratio));
  if (!call.interpreter.options.asF64)
    factor.roundToElement();
  const double *input = call.operand(0).floats();
  double *result = call.result().mutableFloats();
  drawWords(op, call, 1, [&](int64_t i, uint32_t word) {
    result[i] = word >= threshold ? input[i] * factor.floats()[0] : 0;
  });
  return success();
}

LogicalResult evaluateUniform(nn::UniformOp op, Call &call) {
  double *result = call.result().mutableFloats();
  drawWords(op, call, 0, [&](int64_t i, uint32_t word) { result[i] = (word >> 8) * 0x1p-24; });
  return success();
}

} // namespace

void registerRandom(Registry &registry) {
  registry.add<nn::DropoutOp>(evaluateDropout);
  registry.add<nn::UniformOp>(evaluateUniform);
}

} // namespace shale::interp
