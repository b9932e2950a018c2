//===- Definitions.cpp - What a graph defines, and what of it is imported -===//
#include "lib/Frontend/ONNX/Definitions.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// The oldest and the newest operator set of the standard domain that Shale supports.
static constexpr int64_t kOldestOpset = 11, kNewestOpset = 28;

FailureOr<llvm::StringMap<int64_t>> onnx::readOpsets(ImportContext &context) {
  const ModelProto &proto = context.model.proto();
  if (!proto.has_ir_version() || proto.ir_version() < 3)
    return context.error("no ir_version, or one before 3: export the model again");
  llvm::StringMap<int64_t> opsets;
  for (const OperatorSetIdProto &opset : proto.opset_import()) {
    StringRef domain = domainOf(opset.domain());
    if (opset.version() < 1 || opset.version() > INT32_MAX)
      return context.error("operator set {} has version {}", domain, opset.version());
    // If a domain is imported twice, the higher version holds (ONNX,
    // docs/IR.md).
    int64_t &version = opsets[domain];
    version = std::max(version, opset.version());
  }
  int64_t standard = opsets.lookup("");
  if (standard == 0)
    return context.error("the file imports no operator set of the standard domain (opset_import)");
  if (standard < kOldestOpset)
    return context.error("operator set {} is older than {}: export with opset 18 or later",
                         standard, kOldestOpset);
  if (standard > kNewestOpset)
    return context.error(
        "operator set {} is newer than {}, the newest that Shale supports: export with opset 23",
        standard, kNewestOpset);
  return opsets;
}

static std::string functionKey(StringRef domain, StringRef name, StringRef overload) {
  return (domainOf(domain) + "::" + name + "::" + overload).str();
}

const FunctionProto *Definitions::functionOf(const NodeProto &node) const {
  return functions.lookup(functionKey(node.domain(), node.op_type(), node.overload()));
}

LogicalResult onnx::readDefinitions(ImportContext &context) {
  Definitions &definitions = context.definitions;
  if (context.graph().sparse_initializer_size() > 0)
    return context.error("sparse initializers are not supported");
  for (const TensorProto &tensor : context.graph().initializer()) {
    if (tensor.name().empty())
      return context.error("an initializer has no name");
    if (!definitions.initializers.try_emplace(tensor.name(), &tensor).second)
      return context.error("initializer {} is defined twice", tensor.name());
  }
  for (const FunctionProto &function : context.model.proto().functions()) {
    std::string key = functionKey(function.domain(), function.name(), function.overload());
    if (!definitions.functions.try_emplace(key, &function).second)
      return context.error("function {} is defined twice", function.name());
  }
  return success();
}

LogicalResult onnx::findNeeded(ImportContext &context, ArrayRef<StringRef> roots) {
  const GraphProto &graph = context.graph();
  if (graph.node_size() > kMaxNodes)
    return context.error("more than {} nodes", kMaxNodes);
  llvm::StringMap<const NodeProto *> producers;
  for (const NodeProto &node : graph.node())
    for (const std::string &name : node.output()) {
      if (name.empty() || (!context.definitions.initializers.count(name) &&
                           producers.try_emplace(name, &node).second))
        continue;
      return context.errorAt(node, "value {} is defined twice", name);
    }
  SmallVector<StringRef> work(roots);
  while (!work.empty()) {
    const NodeProto *node = producers.lookup(work.pop_back_val());
    if (node && context.needed.insert(node).second)
      forEachNameRead(*node, [&](StringRef name) { work.push_back(name); });
  }
  return success();
}
