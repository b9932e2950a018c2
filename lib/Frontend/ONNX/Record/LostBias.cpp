//===- LostBias.cpp - Biases of zeros that the exporter dropped -----------===//
#include "lib/Frontend/ONNX/Record/Finder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace shale;
using namespace shale::onnx;
using llvm::StringRef;

void Finder::loseBias(const Operation &operation, size_t index) {
  // The product or norm itself is where the bias was added.
  for (const NodeProto *node : llvm::reverse(operation.nodes)) {
    StringRef type = node->op_type();
    if (type != "Gemm" && type != "MatMul" && type != "LayerNormalization" && type != "Conv")
      continue;
    const TensorProto *weight = nullptr;
    for (const Use &use : operation.uses)
      if (use.node == node && use.operand == 1)
        weight = use.initializer;
    if (!weight || weight->dims_size() == 0)
      continue;
    bool firstDim = type == "Conv";
    for (const AttributeProto &attribute : node->attribute())
      firstDim |= attribute.name() == "transB" && attribute.i() != 0;
    out.list[index].used = true;
    out.list[index].shape = {weight->dims(firstDim ? 0 : weight->dims_size() - 1)};
    out.list[index].dataType = weight->data_type();
    out.lostBias[node] = index;
    remark(node,
           "bias '" + out.list[index].name + "' of zeros, which the export dropped, is restored");
    return;
  }
}
