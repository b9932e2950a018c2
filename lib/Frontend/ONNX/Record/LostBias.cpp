//===- LostBias.cpp - Biases of zeros that the exporter dropped -----------===//
#include "lib/Frontend/ONNX/Record/Finder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace shale;
using namespace shale::onnx;
using llvm::StringRef;

/// Whether an operation's record names a parameter as its bias, whatever its name. Source: the
/// signatures of ATen's operations.
bool Finder::isBias(const Operation &operation, size_t index) const {
  if (StringRef(targets[index]).ends_with("bias"))
    return true;
  int place = llvm::StringSwitch<int>(operation.kind())
                  .Case("addmm", 0)
                  .Cases({"linear", "conv1d", "conv2d", "conv3d", "convolution"}, 2)
                  .Case("layer_norm", 3)
                  .Default(-1);
  return place >= 0 && llvm::any_of(operation.fx.args, [&](const std::string &name) {
           auto it = byPlaceholder.find(name);
           return it != byPlaceholder.end() && it->second == index &&
                  operation.argumentOf(name) == place;
         });
}

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
