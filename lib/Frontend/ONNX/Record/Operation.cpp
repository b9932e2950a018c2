//===- Operation.cpp - Operations of the exported program -----------------===//
#include "lib/Frontend/ONNX/Record/Operation.h"
#include "lib/Frontend/ONNX/Record/Expression.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::StringRef;

StringRef Operation::kind() const { return words::kindOf(fx.target); }

bool Operation::readsAlsoAs(StringRef name, StringRef value, StringRef maker) const {
  std::string kind = operationOf(maker);
  if (kind.empty() || operationOf(name) != kind)
    return false;
  auto [reads, named] = readsOf(value, maker);
  return reads > named;
}

std::pair<size_t, size_t> Operation::readsOf(StringRef value, StringRef maker) const {
  size_t reads = 0, named = 0;
  for (const NodeProto *node : nodes) // several nodes may read one operand
    reads = std::max<size_t>(reads, llvm::count(node->input(), value));
  for (const std::string &one : fx.args)
    named += one == maker || one == value;
  return {reads, named};
}

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

void Operation::findComplements() {
  if (kind() != "lerp")
    return;
  auto isReadBy = [&](const NodeProto &product, StringRef type) {
    return llvm::any_of(nodes, [&](const NodeProto *node) {
      return node->op_type() == type && llvm::is_contained(node->input(), product.output(0));
    });
  };
  for (const Use &use : uses) {
    if (use.node->op_type() != "Mul" || use.node->output_size() != 1)
      continue;
    if (isReadBy(*use.node, "Add"))
      weight = use;
    else if (isReadBy(*use.node, "Sub"))
      complements.push_back(use);
  }
  if (!weight) // the weight is computed by the graph: what else the products read is unknown
    complements.clear();
  llvm::erase_if(uses, [&](const Use &use) {
    return llvm::any_of(complements, [&](const Use &one) {
      return one.node == use.node && one.operand == use.operand;
    });
  });
}
