//===- Building.cpp - From nodes to ops -----------------------------------===//
#include "lib/Frontend/ONNX/Building.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Seed.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

void Building::mark(Operation *op) const {
  if (module)
    op->setAttr(nn::kScopeAttr, StringAttr::get(op->getContext(), *module));
}

Value Building::finish(Operation *op) {
  mark(op);
  return folder.fold(op);
}

bool Building::isRead(StringRef name) {
  if (readInGraph.empty())
    readInGraph = namesRead(context.graph());
  return readInGraph.contains(name);
}

/// Enters the module of a node of the model's graph.
void Building::enterModule(const NodeProto &node) {
  if (scopesAreLost) {
    for (int i = 0; i < node.input_size(); ++i)
      if (auto use = parameters.uses.find({&node, i}); use != parameters.uses.end())
        lastModule = displayName(moduleOf(parameters.list[use->second.parameter].name));
    module = lastModule;
  } else {
    module = merging ? std::optional(merging->module) : readScope(node);
    module = module ? std::optional(context.scopeOf(*module)) : std::nullopt;
  }
  for (const auto &[path, name] : readClasses(node))
    if (std::string scope = context.scopeOf(path); !scope.empty())
      classes.try_emplace(scope, name);
}

/// Gives the value from which the file's gradients begin, if the node makes it, an op of its own.
static LogicalResult markSeed(Node &node) {
  if (metadata(node.proto.metadata_props(), words::kSeed) != "loss" || !node.wants(0))
    return success();
  Value &value = node.scope.values[node.proto.output(0)].value;
  DenseElementsAttr ones = node.building.constantOf(value);
  auto type = value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType();
  if (!ones || !ones.isSplat() || type.getRank() != 0 || !isa<FloatType>(type.getElementType()) ||
      !ones.getSplatValue<APFloat>().isExactlyValue(1))
    return node.error("it is marked as the gradient of the loss with respect to itself, but is not "
                      "the number 1: export the file again with shale.export");
  auto seed = nn::SeedOp::create(node.builder, node.loc, type);
  node.adopt(seed);
  value = seed;
  return success();
}

/// Adds a bias that the exporter dropped to the node's result.
LogicalResult Building::addBias(Node &node, Value bias) {
  Binding &result = node.scope.values[node.proto.output(0)];
  Value sum = Tensor(node, result.value) + Tensor(node, bias);
  if (!sum)
    return node.error("its restored bias does not fit");
  result.value = sum;
  return success();
}

LogicalResult Building::importNode(const NodeProto &proto, Scope &scope, int depth) {
  if (failed(context.countWork(1)))
    return failure();
  ImportContext::Place outer = context.enter(proto, scope.path + placeOf(proto));
  std::optional<std::string> outerModule = module;
  if (depth == 0)
    enterModule(proto);
  FailureOr<SmallVector<Binding>> operands = readOperands(proto, scope);
  if (failed(operands))
    return failure();
  Value bias = depth == 0 ? lostBiasOf(proto) : Value();
  bool isOperand = proto.op_type() == "LayerNormalization" || proto.op_type() == "Conv";
  if (bias && isOperand) {
    operands->resize(3);
    (*operands)[2].value = bias;
  }
  Node node(*this, proto, scope, depth, std::move(*operands));
  if (failed(translate(node)) || (bias && !isOperand && failed(addBias(node, bias))) ||
      (depth == 0 && failed(markSeed(node))))
    return failure();
  context.leave(std::move(outer));
  module = std::move(outerModule);
  return success();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Domain of the functions for operators of PyTorch that a traced file keeps whole. Their bodies
/// compute them by standard operators (tools/export/shale_export/translations.py).
static constexpr llvm::StringLiteral kAtenDomain = "shale.aten";

/// Returns a digest of what a function computes, in hexadecimal: of its operators, their attributes
/// and how they are connected, with a number for each name of a value. Names of values, and what
/// describes the file, do not count.
static std::string digestOf(const FunctionProto &function) {
  std::string text;
  llvm::StringMap<size_t> numbers;
  // Fields have their length in front, so that no text reads as two.
  auto field = [&](StringRef part) { (text += std::to_string(part.size()) + ":") += part; };
  auto values = [&](const auto &names) {
    for (const std::string &name : names) {
      auto number = numbers.try_emplace(name, numbers.size()).first->second;
      field(name.empty() ? "-" : std::to_string(number));
    }
    field(";");
  };
  field(function.name());
  values(function.input());
  for (const std::string &name : function.attribute())
    field(name);
  for (const AttributeProto &attribute : function.attribute_proto())
    field(attribute.SerializeAsString());
  for (const NodeProto &node : function.node()) {
    field(domainOf(node.domain()));
    field(node.op_type());
    field(node.overload());
    values(node.input());
    values(node.output());
    for (const AttributeProto &attribute : node.attribute())
      field(attribute.SerializeAsString());
  }
  values(function.output());
  auto digest = llvm::SHA256::hash(llvm::arrayRefFromStringRef(text));
  return llvm::toHex(digest, /*LowerCase=*/true);
}

/// Imports a call of a function by an op that computes the same, and sets the call's results. The
/// function must have the body that the export writes, not only its name. Returns false, with no
/// error, if the body is to be imported instead: it is another one, or no op fits the operands.
static bool importWhole(const FunctionProto &function, Node &node) {
  if (function.domain() != kAtenDomain)
    return false;
  const WholeFunction *known = findWholeFunction(function.name());
  if (!known)
    return false;
  std::string digest = digestOf(function);
  if (digest != known->digest) {
    emitDecision(node.loc, "import",
                 "function '" + displayName(function.name()) +
                     "' has another body than this version of shale.export writes (" + digest +
                     "): its operators are imported one by one");
    return false;
  }
  return known->import(node);
}

/// Binds the inputs of a function to the operands of its call.
static LogicalResult bindOperands(const FunctionProto &function, Node &node, Scope &inner) {
  if (node.numInputs() > function.input_size())
    return node.error("function {} has {} inputs, not {}", function.name(), function.input_size(),
                      node.numInputs());
  for (int i = 0; i < function.input_size(); ++i)
    if (const Binding *operand = node.operand(i))
      inner.values[function.input(i)] = *operand;
    else
      inner.absent.insert(function.input(i));
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
    inner.attributes[attribute.name()] = node.resolved(attribute);
  }
  return success();
}

/// Takes the results of a call from the function's scope.
static LogicalResult takeResults(const FunctionProto &function, Node &node, const Scope &inner) {
  for (int i = 0; i < node.numOutputs(); ++i) {
    const Binding *found = i < function.output_size() ? inner.find(function.output(i)) : nullptr;
    if (node.wants(i) && !found)
      return node.error("function {} does not define its output {}", function.name(), i);
    if (node.wants(i))
      node.scope.values[node.proto.output(i)] = *found;
  }
  return success();
}

/// Imports the nodes of a function.
static LogicalResult callFunction(const FunctionProto &function, Node &node) {
  if (node.depth >= kMaxCallDepth)
    return node.error("functions call each other more than {} deep: is {} recursive?",
                      kMaxCallDepth, function.name());
  Scope inner = functionScope(function, node.scope);
  inner.path = node.scope.path + "in function '" + displayName(function.name()) + "', ";
  if (failed(bindOperands(function, node, inner)) || failed(bindAttributes(function, node, inner)))
    return failure();
  for (const NodeProto &called : function.node())
    if (failed(node.building.importNode(called, inner, node.depth + 1)))
      return failure();
  return takeResults(function, node, inner);
}

/// Calls the function or the handler of the node's operator.
LogicalResult Building::translate(Node &node) {
  if (const FunctionProto *function = context.definitions.functionOf(node.proto)) {
    bool isWhole = importWhole(*function, node);
    return node.hasFailed() ? failure() : isWhole ? success() : callFunction(*function, node);
  }
  Operator op =
      getHandlers().find(domainOf(node.proto.domain()), node.proto.op_type(), node.version);
  if (!op)
    return context.error("operator is not supported");
  if (Value whole = wholeOperation(node))
    node.set(0, whole);
  else if (node.hasFailed() || failed(op.import(node)) || node.hasFailed())
    return context.hasFailed() ? failure() : LogicalResult(node.error("cannot be imported"));
  return failed(requireAllRead(node)) ? failure() : finishNarrow(node);
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Binding>> Building::readOperands(const NodeProto &node, Scope &scope) {
  SmallVector<Binding> operands(node.input_size());
  for (int i = 0; i < node.input_size(); ++i) {
    if (node.input(i).empty() || scope.absent.contains(node.input(i)))
      continue;
    FailureOr<Value> value = resolve(node, i, scope);
    // The operations that the exporter removed.
    auto removed = parameters.restored.find({&node, i});
    if (succeeded(value) && *value && removed != parameters.restored.end() &&
        scope.isIn(context.scope))
      if (auto type = dyn_cast<RankedTensorType>((*value).getType());
          type && isa<FloatType>(type.getElementType()))
        value = restored(node, removed->second, *value, type);
    if (failed(value))
      return failure();
    if (const Binding *binding = scope.find(node.input(i)))
      operands[i] = *binding;
    operands[i].value = *value;
  }
  return operands;
}

/// Returns what the node reads in the file; null for a sequence.
FailureOr<Value> Building::resolve(const NodeProto &node, int operand, Scope &scope) {
  const std::string &name = node.input(operand);
  if (scope.isIn(context.scope)) {
    if (auto merged = parameters.readsOfMerged.find({&node, operand});
        merged != parameters.readsOfMerged.end() && !merging)
      return mergedValue(merged->second, name, scope);
    const auto &uses = merging ? merging->uses : parameters.uses;
    auto use = uses.find({&node, operand});
    if (Value value = use == uses.end() ? Value() : states.values[use->second.parameter]) {
      if (use->second.expression < 0)
        return use->second.transposed ? transposed(builder, context.locationOf(node), value)
                                      : value;
      const TensorProto &folded = *context.definitions.initializers.lookup(name);
      auto type = context.model.type(context.mlirContext(), folded);
      if (!type)
        return context.error("initializer {}: {}", name, type.takeError());
      return restored(node, parameters.expressions[use->second.expression], value, *type);
    }
  }
  if (const Binding *binding = scope.find(name))
    return binding->value;
  return initializerOf(node, operand, scope);
}

/// Returns an initializer of the model's graph that is no state, as a constant.
FailureOr<Value> Building::initializerOf(const NodeProto &node, int operand, Scope &scope) {
  const std::string &name = node.input(operand);
  const TensorProto *tensor =
      scope.isIn(context.scope) ? context.definitions.initializers.lookup(name) : nullptr;
  if (!tensor)
    return context.error("operand {} ({}) is not defined before it is used", operand, name);
  if (Value parameter = scope.outer ? parameterIn(*tensor, node) : Value())
    return parameter;
  // `initialization_binding` of a training file replaces the stored value.
  FailureOr<Binding> binding = constantIn(*tensor, context.locationOf(node), initial.lookup(name));
  if (failed(binding))
    return failure();
  scope.values[name] = *binding;
  return binding->value;
}

FailureOr<Binding> Building::constantIn(const TensorProto &tensor, Location location,
                                        DenseElementsAttr values) {
  if (!values)
    if (llvm::Error error = context.readConstant(tensor).moveInto(values))
      return context.error("initializer {}: {}", tensor.name(), std::move(error));
  Value constant = nn::ConstantOp::create(builder, location, values);
  return Binding{constant, {}, false, narrowInteger(tensor.data_type()) ? tensor.data_type() : 0};
}

/// Computes an expression of a value or a parameter that the exporter folded or removed.
FailureOr<Value> Building::restored(const NodeProto &node, const Expression &expression,
                                    Value input, RankedTensorType type) {
  Block &body = context.body;
  Operation *before = body.empty() ? nullptr : &body.back();
  Value result = buildExpression(builder, context.locationOf(node), expression, input, type);
  if (!result)
    return context.error(
        "the computation that the export folded into operand {} does not fit it: export with torch.onnx.export(..., optimize=False)",
        node.name());
  for (Operation *op = before ? before->getNextNode() : &body.front(); op; op = op->getNextNode())
    mark(op);
  return result;
}

/// Returns value `name` of merged operation `number`, and imports its nodes
/// again on first use.
FailureOr<Value> Building::mergedValue(size_t number, StringRef name, Scope &scope) {
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
  bool isImported = llvm::all_of(operation.nodes, [&](const NodeProto *node) {
    return succeeded(importNode(*node, scope, 0));
  });
  merging = nullptr;
  if (!isImported)
    return failure();
  for (auto &entry : before) {
    mergedValues[number][entry.first()] = scope.values.lookup(entry.first()).value;
    scope.values[entry.first()] = entry.second;
  }
  return mergedValues[number].lookup(name);
}

/// Returns the parameter that an initializer holds, for a read in a subgraph, which no metadata
/// describes; null if it holds none.
Value Building::parameterIn(const TensorProto &tensor, const NodeProto &node) {
  for (auto [parameter, value] : llvm::zip(parameters.list, states.values)) {
    if (!value || parameter.initializer != &tensor)
      continue;
    return parameter.transposed ? transposed(builder, context.locationOf(node), value) : value;
  }
  return {};
}

/// Returns the bias of zeros that the exporter dropped from a node; null if it dropped none.
Value Building::lostBiasOf(const NodeProto &node) const {
  const auto &lostBias = merging ? merging->lostBias : parameters.lostBias;
  auto lost = lostBias.find(&node);
  return lost == lostBias.end() ? Value() : states.values[lost->second];
}

//===----------------------------------------------------------------------===//
// Graphs in attributes: branches and bodies
//===----------------------------------------------------------------------===//

/// Bytes of constants in bodies of loops that count as one node.
static constexpr int64_t kBytesOfNode = 4096;

/// Imports the initializers of a graph that `what` names, into its scope.
LogicalResult Building::importInitializers(Node &node, const GraphProto &graph, StringRef what,
                                           Scope &inner) {
  llvm::StringSet<> inputs = namesOf(graph.input());
  for (const TensorProto &tensor : graph.initializer()) {
    if (Value parameter = parameterIn(tensor, node.proto)) {
      inner.values[tensor.name()].value = parameter;
      continue;
    }
    if (inputs.contains(tensor.name())) // which has another value
      continue;
    if (isFloat(tensor) && !isScalar(tensor) && remarked.insert(&tensor).second)
      emitDecision(node.loc, "import",
                   say("initializer {} of the {} is a constant: it is no parameter of the file",
                       {tensor.name(), plain(what)}));
    FailureOr<Binding> binding = constantIn(tensor, node.loc);
    if (failed(binding) ||
        failed(context.countWork(1 + nn::tensorBytes(binding->value) / kBytesOfNode)))
      return failure();
    inner.values[tensor.name()] = *binding;
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
      return node.error("its {} does not define its output {}", plain(what), output.name());
    outputs.push_back(*found);
  }
  return outputs;
}

FailureOr<SmallVector<Binding>> Building::importGraph(Node &node, const GraphProto &graph,
                                                      StringRef what, ArrayRef<Binding> inputs) {
  if (graph.sparse_initializer_size() > 0)
    return node.error("sparse initializers are not supported");
  if (node.depth >= kMaxCallDepth)
    return node.error("graphs are nested more than {} deep", kMaxCallDepth);
  if (graph.input_size() != int(inputs.size()))
    return node.error("its {} has {} inputs, not {}", plain(what), graph.input_size(),
                      inputs.size());
  Scope inner;
  inner.outer = &node.scope;
  inner.opsets = node.scope.opsets;
  inner.attributes = node.scope.attributes;
  inner.path = node.scope.path + ("in the " + what + " of '").str() +
               displayName(nameOf(node.proto)) + "', ";
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
