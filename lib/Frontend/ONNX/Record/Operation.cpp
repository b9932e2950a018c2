//===- Operation.cpp - Operations of the exported program -----------------===//
#include "lib/Frontend/ONNX/Record/Operation.h"
#include "lib/Frontend/ONNX/Record/Expression.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::StringRef;

bool onnx::readsTransposed(const NodeProto &node) {
  return llvm::any_of(node.attribute(), [](const AttributeProto &attribute) {
    return attribute.name() == "transB" && attribute.i() != 0;
  });
}

StringRef Operation::kind() const { return words::kindOf(fx.target); }

bool Operation::readsAsItIs() const {
  // By statistics, each example repeats the weights of an instance normalization.
  if (kind() == "instance_norm" && nodes.back()->op_type() == "InstanceNormalization")
    return true;
  return words::is(kind(), words::Trait::ReadsAsItIs) || isMovement(kind());
}

bool Operation::isOfExporter(const NodeProto &node, int operand) const {
  return operand > 0 && node.op_type() == "InstanceNormalization" && isGroupNorm();
}

int Operation::argumentOf(StringRef name) const {
  auto place = llvm::find(fx.positional, ("%" + name).str());
  return place == fx.positional.end() ? -1 : int(place - fx.positional.begin());
}
