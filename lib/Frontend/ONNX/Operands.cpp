//===- Operands.cpp - What the operands of nodes are read from ------------===//
#include "dialects/nn/Ops/Constant.h"
#include "lib/Frontend/ONNX/Narrow.h"
#include "lib/Frontend/ONNX/Translator.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

FailureOr<Operands> Translator::readOperands(const NodeProto &node, Scope &scope) {
  Operands operands;
  for (int i = 0; i < node.input_size(); ++i) {
    operands.values.push_back({});
    if (node.input(i).empty() || scope.absent.contains(node.input(i)))
      continue;
    FailureOr<Value> value = resolve(node, i, scope);
    if (failed(value))
      return failure();
    operands.values.back() = *value;
    const Binding *binding = scope.find(node.input(i));
    operands.narrowTypes.resize(i + 1);
    operands.narrowTypes[i] = binding ? binding->narrow : 0;
  }
  return operands;
}

/// Returns the operand, after the operations that the exporter removed.
FailureOr<Value> Translator::resolve(const NodeProto &node, int operand, Scope &scope) {
  FailureOr<Value> value = resolveRead(node, operand, scope);
  auto removed = parameters.restored.find({&node, operand});
  if (failed(value) || !*value || removed == parameters.restored.end() || !scope.isIn(graph))
    return value;
  auto type = dyn_cast<RankedTensorType>((*value).getType());
  if (!type || !isa<FloatType>(type.getElementType()))
    return value;
  return restored(node, removed->second, *value, type);
}

/// Returns what the node reads in the file; null for a sequence.
FailureOr<Value> Translator::resolveRead(const NodeProto &node, int operand, Scope &scope) {
  const std::string &name = node.input(operand);
  if (scope.isIn(graph)) {
    if (auto merged = parameters.readsOfMerged.find({&node, operand});
        merged != parameters.readsOfMerged.end() && !merging)
      return mergedValue(merged->second, name, scope);
    const auto &uses = merging ? merging->uses : parameters.uses;
    auto use = uses.find({&node, operand});
    if (use != uses.end() && sources.states.values[use->second.parameter])
      return useOf(node, operand, use->second);
  }
  if (const Binding *binding = scope.find(name))
    return binding->value;
  return initializerOf(node, operand, scope);
}

/// Returns a parameter as the node reads it.
FailureOr<Value> Translator::useOf(const NodeProto &node, int operand, const ParameterUse &use) {
  Value value = sources.states.values[use.parameter];
  if (use.expression >= 0) {
    const std::string &name = node.input(operand);
    auto type =
        context.model.type(context.mlirContext(), *sources.definitions.initializers.lookup(name));
    if (!type)
      return context.error("initializer {}: {}", name, plain(llvm::toString(type.takeError())));
    return restored(node, parameters.expressions[use.expression], value, *type);
  }
  return use.transposed ? transposed(context.builder, context.locationOf(node), value) : value;
}

/// Returns an initializer of the model's graph that is no state, as a constant.
FailureOr<Value> Translator::initializerOf(const NodeProto &node, int operand, Scope &scope) {
  const std::string &name = node.input(operand);
  const TensorProto *tensor =
      scope.isIn(graph) ? sources.definitions.initializers.lookup(name) : nullptr;
  if (!tensor)
    return context.error("operand {} ({}) is not defined before it is used", operand, name);
  if (Value parameter = scope.outer ? parameterIn(*tensor, node) : Value())
    return parameter;
  // `initialization_binding` of a training file replaces the stored value.
  DenseElementsAttr values = sources.initial.lookup(name);
  if (!values) {
    auto data = context.readConstant(*tensor);
    if (!data)
      return context.error("initializer {}: {}", name, plain(llvm::toString(data.takeError())));
    values = *data;
  }
  Binding binding;
  binding.value = nn::ConstantOp::create(context.builder, context.locationOf(node), values);
  binding.narrow = narrowInteger(tensor->data_type()) ? tensor->data_type() : 0;
  scope.values[name] = binding;
  return binding.value;
}

/// Computes an expression of a value or a parameter that the exporter folded or removed.
FailureOr<Value> Translator::restored(const NodeProto &node, const Expression &expression,
                                      Value input, RankedTensorType type) {
  Block &body = context.body;
  Operation *before = body.empty() ? nullptr : &body.back();
  Value result =
      buildExpression(context.builder, context.locationOf(node), expression, input, type);
  if (!result)
    return context.error(
        "the computation that the export folded into operand {} does not fit it: export with torch.onnx.export(..., optimize=False)",
        node.name());
  for (Operation *op = before ? before->getNextNode() : &body.front(); op; op = op->getNextNode())
    scopes.mark(op);
  return result;
}

/// Returns value `name` of merged operation `number`, and imports its nodes
/// again on first use.
FailureOr<Value> Translator::mergedValue(size_t number, StringRef name, Scope &scope) {
  mergedValues.resize(parameters.merged.size());
  if (Value value = mergedValues[number].lookup(name))
    return value;
  const MergedOperation &operation = parameters.merged[number];
  // The nodes define the same names a second time; their first values are restored afterwards.
  llvm::StringMap<Binding> before;
  for (const NodeProto *node : operation.nodes)
    for (const std::string &name : node->output()) {
      before[name] = scope.values.lookup(name);
      scope.values.erase(name);
    }
  merging = &operation;
  LogicalResult result = success();
  for (const NodeProto *node : operation.nodes)
    if (succeeded(result))
      result = importNode(*node, scope, 0);
  merging = nullptr;
  if (failed(result))
    return failure();
  for (auto &entry : before) {
    mergedValues[number][entry.first()] = scope.values.lookup(entry.first()).value;
    scope.values[entry.first()] = entry.second;
  }
  return mergedValues[number].lookup(name);
}

/// Returns the parameter that an initializer holds, for a read in a subgraph, which no metadata
/// describes; null if it holds none.
Value Translator::parameterIn(const TensorProto &tensor, const NodeProto &node) {
  for (auto [parameter, value] : llvm::zip(parameters.list, sources.states.values)) {
    if (!value || parameter.initializer != &tensor)
      continue;
    return parameter.transposed ? transposed(context.builder, context.locationOf(node), value)
                                : value;
  }
  return {};
}

/// Returns the bias of zeros that the exporter dropped from a node; null if it dropped none.
Value Translator::lostBiasOf(const NodeProto &node) const {
  const auto &lostBias = merging ? merging->lostBias : parameters.lostBias;
  auto lost = lostBias.find(&node);
  return lost == lostBias.end() ? Value() : sources.states.values[lost->second];
}
