//===- Lost.cpp - Arguments that PyTorch's exporters leave out ------------===//
//
// aten.scaled_dot_product_attention drops probabilities whenever its dropout_p is not 0. The
// exporters write a Dropout without training_mode, which changes nothing, and their optimizer
// removes it. All other Dropouts of PyTorch have training_mode, so one without it is active. If
// none is there, it is restored from the metadata of the nodes of the attention. Sources:
// onnxscript's function_libs/torch_lib/ops/nn.py, PyTorch's
// torch/onnx/_internal/torchscript_exporter.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/TracedProgram.h"
#include "lib/Frontend/ONNX/Stages.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

std::optional<double> onnx::attentionDropout(const FxNode &fx) {
  int position = words::attentionDropoutPlaceOf(words::kindOf(fx.target));
  return position < 0 ? std::nullopt : fx.number(position, "dropout_p");
}

FailureOr<LostDropout> onnx::findLostDropout(ImportContext &context) {
  LostDropout lost;
  if (context.options.dropout == 0.0)
    return lost;
  size_t count = 0;
  for (const TracedOperation &operation : context.program->operations()) {
    double ratio = attentionDropout(operation.fx).value_or(0);
    if (ratio == 0)
      continue;
    const NodeProto *dropout = nullptr, *matmul = nullptr;
    for (const NodeProto *node : operation.nodes) {
      dropout = node->op_type() == "Dropout" ? node : dropout;
      // The last one is that of the probabilities and the values.
      matmul = node->op_type() == "MatMul" ? node : matmul;
    }
    // The backward half of a forward-backward pair must have the same random numbers.
    bool isWhole = StringRef(operation.fx.target).starts_with(words::kScaled);
    if (!isWhole || (!dropout && !matmul))
      return context.refuse(
          Refusal(Reason::LostDropout, operation.nodes.back(), plain(shortest(ratio))));
    if (!dropout)
      lost[matmul] = context.options.dropout.value_or(ratio);
    ++count;
  }
  if (count > 0)
    context.remark("dropout of {}{} restored: the export left it out", count,
                   count == 1 ? " operation of attention is" : " operations of attention is");
  return lost;
}
