//===- Translator.cpp - From nodes to ops ---------------------------------===//
#include "lib/Frontend/ONNX/Translator.h"
#include "dialects/nn/Ops/Seed.h"
#include "lib/Frontend/ONNX/Narrow.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "lib/Frontend/ONNX/WholeFunctions.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

Translator::Translator(ImportContext &context, Scope &graph, Inputs &inputs, ConstantFolder &folder,
                       const Sources &sources, const LostDropout &lostDropout, bool scopesAreLost)
    : context(context), graph(graph), sources(sources), parameters(sources.states.parameters),
      scopes(context, parameters, scopesAreLost),
      building(context, graph, inputs, folder, sources.states, lostDropout, scopes, *this) {}

LogicalResult Translator::importNodes(const NodeSet &needed) {
  for (const NodeProto &node : context.graph().node())
    if (needed.contains(&node) && failed(importNode(node, graph, 0)))
      return failure();
  return success();
}

LogicalResult Translator::importNode(const NodeProto &proto, Scope &scope, int depth) {
  if (failed(context.countWork(1)))
    return failure();
  ImportContext::Place outer = context.enter(proto, scope.path + placeOf(proto));
  std::optional<Scopes::Entered> module;
  if (depth == 0)
    module.emplace(scopes, proto, merging);
  FailureOr<Operands> operands = readOperands(proto, scope);
  if (failed(operands))
    return failure();
  Value bias = depth == 0 ? lostBiasOf(proto) : Value();
  bool isOperand = proto.op_type() == "LayerNormalization" || proto.op_type() == "Conv";
  if (bias && isOperand) {
    operands->values.resize(3);
    operands->values[2] = bias;
  }
  Node node(building, proto, scope, depth, std::move(*operands));
  if (failed(translate(node)) || (bias && !isOperand && failed(addBias(node, bias))) ||
      (depth == 0 && failed(markSeed(node))))
    return failure();
  context.leave(std::move(outer));
  return success();
}

/// Calls the function or the handler of the node's operator.
LogicalResult Translator::translate(Node &node) {
  if (const FunctionProto *function = sources.definitions.functionOf(node.proto)) {
    if (importWhole(*function, node))
      return node.hasFailed() ? failure() : success();
    return node.hasFailed() ? failure() : callFunction(*function, node);
  }
  Operator op =
      getHandlers().find(domainOf(node.proto.domain()), node.proto.op_type(), node.version);
  if (!op)
    return context.error("operator is not supported");
  if (Value whole = wholeOperation(node))
    node.set(0, whole);
  else if (node.hasFailed() || failed(op.import(node)) || node.hasFailed())
    return context.hasFailed() ? failure() : LogicalResult(node.error("cannot be imported"));
  return failed(node.requireAllRead()) ? failure() : finishNarrow(node);
}

/// Gives the value from which the file's gradients begin, if the node makes it, an op of its own.
LogicalResult Translator::markSeed(Node &node) {
  if (metadata(node.proto.metadata_props(), words::kSeed) != "loss" || !node.wants(0))
    return success();
  Value &value = node.scope.values[node.proto.output(0)].value;
  DenseElementsAttr ones = building.constantOf(value);
  auto type = value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType();
  if (!ones || !ones.isSplat() || type.getRank() != 0 || !isa<FloatType>(type.getElementType()) ||
      !ones.getSplatValue<APFloat>().isExactlyValue(1))
    return node.error("it is marked as the gradient of the loss with respect to itself, but is not "
                      "the number 1: export the file again with shale.export");
  auto seed = nn::SeedOp::create(context.builder, node.loc, type);
  node.adopt(seed);
  value = seed;
  return success();
}

/// Adds a bias that the exporter dropped to the node's result.
LogicalResult Translator::addBias(Node &node, Value bias) {
  Binding &result = node.scope.values[node.proto.output(0)];
  Value sum = node.add(result.value, bias);
  if (!sum)
    return node.error("its restored bias does not fit");
  result.value = sum;
  return success();
}

/// Records the types of results that values do not have, and reduces these to them.
LogicalResult Translator::finishNarrow(Node &node) {
  for (int i = 0; i < node.numOutputs(); ++i) {
    auto result =
        node.wants(i) ? node.scope.values.find(node.proto.output(i)) : node.scope.values.end();
    if (result == node.scope.values.end() || !result->second.value || result->second.narrow)
      continue;
    int32_t type = narrowResult(node, i, result->second.value);
    if (!type)
      continue;
    Value value = reduced(node, result->second.value, type);
    if (!value)
      return failure();
    Binding &binding = node.scope.values[node.proto.output(i)];
    binding.value = value;
    binding.narrow = type;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Binds the inputs of a function to the operands of its call.
static LogicalResult bindOperands(const FunctionProto &function, Node &node, Scope &inner) {
  if (node.numInputs() > function.input_size())
    return node.error("function {} has {} inputs, not {}", function.name(), function.input_size(),
                      node.numInputs());
  for (int i = 0; i < function.input_size(); ++i) {
    if (!node.has(i)) {
      inner.absent.insert(function.input(i));
      continue;
    }
    Binding binding;
    if (const Binding *sequence = node.sequence(i))
      binding = *sequence;
    else
      binding.value = node.input(i), binding.narrow = node.narrow(i);
    inner.values[function.input(i)] = binding;
  }
  return success();
}

/// Binds the attributes of a function to those of its call.
static LogicalResult bindAttributes(const FunctionProto &function, Node &node, Scope &inner) {
  for (const std::string &name : function.attribute())
    inner.attributes[name] = nullptr;
  for (const AttributeProto &attribute : function.attribute_proto())
    inner.attributes[attribute.name()] = &attribute;
  for (const AttributeProto &attribute : node.proto.attribute()) {
    if (!inner.attributes.contains(attribute.name()))
      return node.error("function {} has no attribute {}", function.name(), attribute.name());
    inner.attributes[attribute.name()] =
        attribute.ref_attr_name().empty() ? &attribute
                                          : node.scope.attributes.lookup(attribute.ref_attr_name());
  }
  return success();
}

/// Takes the results of a call from the function's scope.
static LogicalResult takeResults(const FunctionProto &function, Node &node, const Scope &inner) {
  for (int i = 0; i < node.numOutputs(); ++i) {
    if (!node.wants(i))
      continue;
    auto it =
        i < function.output_size() ? inner.values.find(function.output(i)) : inner.values.end();
    if (it == inner.values.end())
      return node.error("function {} does not define its output {}", function.name(), i);
    node.scope.values[node.proto.output(i)] = it->second;
  }
  return success();
}

LogicalResult Translator::callFunction(const FunctionProto &function, Node &node) {
  if (node.depth >= kMaxCallDepth)
    return context.error("functions call each other more than {} deep: is {} recursive?",
                         kMaxCallDepth, function.name());
  Scope inner = functionScope(function, node.scope);
  inner.path = node.scope.path + "in function '" + displayName(function.name()) + "', ";
  if (failed(bindOperands(function, node, inner)) || failed(bindAttributes(function, node, inner)))
    return failure();
  for (const NodeProto &called : function.node())
    if (failed(importNode(called, inner, node.depth + 1)))
      return failure();
  return takeResults(function, node, inner);
}
