//===- LostBias.cpp - Biases of zeros that the exporter dropped -----------===//
#include "lib/Frontend/ONNX/Record/Messages.h"
#include "lib/Frontend/ONNX/Record/Rules.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::StringRef;

/// Claims that an operation's product or norm, where the bias was added, lost it.
static void claimBias(Findings &findings, const Known &known, const Operation &operation,
                      size_t index) {
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
    findings.claim(operation.hasForm ? Evidence::Form : Evidence::Order,
                   BiasClaim{index, node, weight->dims(firstDim ? 0 : weight->dims_size() - 1),
                             weight->data_type()},
                   messages::lostBias(*node, known.parameter(index).name));
    return;
  }
}

/// A bias that the record of an operation names and no node of it reads.
Findings rules::lostBias(const Known &known, const Operation &operation) {
  Findings findings;
  if (operation.hasForm) {
    auto reads = readsByForm(known, operation);
    for (size_t index : parametersNamedBy(known.program, operation))
      if (known.program.isBias(operation, index) &&
          llvm::none_of(reads, [&](const auto &read) { return read.second == index; }))
        claimBias(findings, known, operation, index);
  } else {
    for (size_t index : readsByOrder(known, operation).lost)
      claimBias(findings, known, operation, index);
  }
  return findings;
}
