//===- Operation.cpp - Operations of the exported program -----------------===//
#include "lib/Frontend/ONNX/Operation.h"
#include "lib/Frontend/ONNX/Expression.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace shale;
using namespace shale::onnx;
using llvm::StringRef;

StringRef Operation::kind() const {
  StringRef name = fx.target;
  name.consume_front("aten.");
  return name.split('.').first;
}

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

bool Operation::readsAsItIs(const Use &use) const {
  static const llvm::StringSet<> names = {
      // products, norms, lookups
      "linear", "addmm", "mm", "bmm", "matmul", "bilinear", "_trilinear", "einsum", "conv1d",
      "conv2d", "conv3d", "convolution", "layer_norm", "native_layer_norm", "rms_norm",
      "_fused_rms_norm", "group_norm", "native_group_norm", "batch_norm",
      "_native_batch_norm_legit_no_training", "_native_batch_norm_legit_functional",
      "_native_batch_norm_legit", "native_batch_norm", "instance_norm", "embedding", "gather",
      "prelu",
      // element by element
      "mul", "add", "sub", "rsub", "div", "pow", "lerp", "maximum", "minimum", "clamp", "clamp_min",
      "clamp_max", "atan2", "logaddexp", "remainder", "fmod", "floor_divide", "where",
      "masked_fill", "gt", "ge", "lt", "le", "eq", "ne",
      // movements of several operands
      "cat", "stack", "scatter", "index_put"};
  StringRef kind = this->kind(), type = use.node->op_type();
  if (kind == "scaled_dot_product_attention") // queries and keys are scaled, the mask is not
    return type == "Add";
  if (kind == "instance_norm") // by statistics, each example repeats the weights
    return type == "InstanceNormalization";
  // A Gemm has alpha and beta as attributes.
  bool scales =
      type != "Gemm" &&
      llvm::any_of(llvm::ArrayRef<StringRef>{"alpha", "beta", "value"}, [&](StringRef name) {
        return StringRef(fx.kwargs).contains((name + ": ").str());
      });
  return !scales && (names.contains(kind) || isMovement(kind));
}

bool Operation::isOfExporter(const NodeProto &node, int operand) const {
  return operand > 0 && node.op_type() == "InstanceNormalization" && isGroupNorm();
}

int Operation::argumentOf(StringRef name) const {
  auto place = llvm::find(fx.positional, ("%" + name).str());
  return place == fx.positional.end() ? -1 : int(place - fx.positional.begin());
}

bool Operation::hasOperandPerArgument() const {
  return nodes.size() == 1 && size_t(nodes[0]->input_size()) == fx.positional.size();
}

bool Operation::isDifference(const NodeProto &node) const {
  return &node == nodes.front() && node.op_type() == "Sub" && node.input_size() == 2 &&
         fx.positional.size() >= 2 &&
         llvm::is_contained({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}, kind());
}

bool Operation::isInOrder() const {
  if (nodes.size() != 1 || size_t(nodes[0]->input_size()) > fx.positional.size())
    return false;
  bool isShown = false;
  for (int i = 0; i < nodes[0]->input_size(); ++i) {
    StringRef name = fx.positional[i];
    bool isConstant = llvm::any_of(uses, [&](const Use &use) { return use.operand == i; });
    if (name == "None" && isConstant) // the exporter's own, of ones or zeros
      continue;
    if (!name.consume_front("%"))
      return false;
    isShown |= name == nodes[0]->input(i);
    if (!isConstant && name != nodes[0]->input(i))
      return false;
  }
  return isShown;
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
