//===- Subgraph.cpp - Graphs in attributes: branches and bodies -----------===//
#include "dialects/nn/Ops/Constant.h"
#include "lib/Frontend/ONNX/Narrow.h"
#include "lib/Frontend/ONNX/Translator.h"
#include "lib/Support/Remarks.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Bytes of constants in bodies of loops that count as one node.
static constexpr int64_t kBytesOfNode = 4096;

/// Imports the initializers of a graph that `what` names, into its scope.
LogicalResult Translator::importInitializers(Node &node, const GraphProto &graph, StringRef what,
                                             Scope &inner) {
  for (const TensorProto &tensor : graph.initializer()) {
    if (Value parameter = parameterIn(tensor, node.proto)) {
      inner.values[tensor.name()].value = parameter;
      continue;
    }
    bool isInput = llvm::any_of(graph.input(), [&](const ValueInfoProto &input) {
      return input.name() == tensor.name(); // which has another value
    });
    if (isInput)
      continue;
    if (isFloat(tensor) && !isScalar(tensor) && remarked.insert(&tensor).second)
      emitDecision(node.loc, "import",
                   "initializer '" + displayName(tensor.name()) + "' of the " + what.str() +
                       " is a constant: it is no parameter of the file");
    auto data = context.readConstant(tensor);
    if (!data)
      return node.error("initializer {}: {}", tensor.name(),
                        plain(llvm::toString(data.takeError())));
    int64_t bytes = nn::tensorBytes(cast<RankedTensorType>(data->getType()));
    if (failed(context.countWork(1 + bytes / kBytesOfNode)))
      return failure();
    Binding &binding = inner.values[tensor.name()];
    binding.value = nn::ConstantOp::create(context.builder, node.loc, *data);
    binding.narrow = narrowInteger(tensor.data_type()) ? tensor.data_type() : 0;
  }
  return success();
}

/// Returns the values of a graph's outputs.
static FailureOr<SmallVector<Binding>> takeOutputs(Node &node, const GraphProto &graph,
                                                   StringRef what, const Scope &inner) {
  SmallVector<Binding> outputs;
  for (const ValueInfoProto &output : graph.output()) {
    const Binding *found = inner.find(output.name());
    if (!found)
      return node.error("its " + what + " does not define its output '" +
                        displayName(output.name()) + "'");
    outputs.push_back(*found);
  }
  return outputs;
}

FailureOr<SmallVector<Binding>> Translator::importGraph(Node &node, const GraphProto &graph,
                                                        StringRef what, ArrayRef<Binding> inputs) {
  if (graph.sparse_initializer_size() > 0)
    return node.error("sparse initializers are not supported");
  if (node.depth >= kMaxCallDepth)
    return node.error("graphs are nested more than {} deep", kMaxCallDepth);
  if (graph.input_size() != int(inputs.size()))
    return node.error("its " + what + " has " + Twine(graph.input_size()) + " inputs, not " +
                      Twine(inputs.size()));
  Scope inner;
  inner.outer = &node.scope;
  inner.opsets = node.scope.opsets;
  inner.attributes = node.scope.attributes;
  inner.path =
      node.scope.path + ("in the " + what + " of '").str() +
      displayName(node.proto.name().empty() && node.proto.output_size() ? node.proto.output(0)
                                                                        : node.proto.name()) +
      "', ";
  // A loop may run the graph many times. Count a graph without nodes, too.
  if (failed(context.countWork(1)) || failed(importInitializers(node, graph, what, inner)))
    return failure();
  for (auto [input, binding] : llvm::zip(graph.input(), inputs))
    inner.values[input.name()] = binding;
  for (const NodeProto &called : graph.node())
    if (failed(importNode(called, inner, node.depth + 1)))
      return failure();
  return takeOutputs(node, graph, what, inner);
}
