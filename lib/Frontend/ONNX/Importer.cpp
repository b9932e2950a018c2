//===- Importer.cpp - From an ONNX file to the nn dialect -----------------===//
//
// Walks the nodes that the loss depends on, in the file's order. Shapes are
// static, so values that depend on shapes only are constants, which the
// interpreter computes during the import.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Importer.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/State.h"
#include "include/shale/Runtime.h"
#include "lib/Frontend/ONNX/Artifacts/Artifacts.h"
#include "lib/Frontend/ONNX/Narrow.h"
#include "lib/Frontend/ONNX/Signature.h"
#include "lib/Frontend/ONNX/Training/StepGraph.h"
#include "lib/Frontend/ONNX/Widen.h"
#include "lib/Interpreter/Interpreter.h"
#include "lib/Support/DeadOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include <map>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

Importer::Importer(Model &model, const ImportOptions &options, MLIRContext *context,
                   const Artifacts *artifacts)
    : builder(context), folder(builder, options.foldLimit), model(model), options(options),
      context(context), artifacts(artifacts) {}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

Location Importer::fileLocation() { return FileLineColLoc::get(context, model.path(), 0, 0); }

Location Importer::locationOf(const NodeProto &node) {
  StringRef name = node.name();
  if (name.empty() && node.output_size() > 0)
    name = node.output(0);
  // The name's location contains the node's module and its line of Python.
  Location below = fileLocation();
  if (SourceLine source = readSourceLine(node); !source.file.empty())
    below = FileLineColLoc::get(context, displayName(source.file), source.line, 0);
  if (std::optional<std::string> module = readScope(node); module && !module->empty())
    below = NameLoc::get(StringAttr::get(context, scopeName(*module)), below);
  return NameLoc::get(StringAttr::get(context, displayName(name)), below);
}

InFlightDiagnostic Importer::error(const Twine &message, int code) {
  exitCode = code;
  failed = true;
  if (!current)
    return emitError(fileLocation()) << model.path() << ": " << message;
  return emitError(locationOf(*current)) << model.path() << ": " << currentNode << ": " << message;
}

InFlightDiagnostic Importer::errorAt(const NodeProto &node, const Twine &message, int code) {
  const NodeProto *outer = std::exchange(current, &node);
  std::string outerNode = std::exchange(currentNode, placeOf(node));
  InFlightDiagnostic diagnostic = error(message, code);
  current = outer;
  currentNode = std::move(outerNode);
  return diagnostic;
}

void Importer::note(const Twine &message) {
  emitNote(fileLocation(), Twine(model.path()) + ": " + message);
}

void onnx::emitNote(Location location, const Twine &message) {
  Diagnostic note(location, DiagnosticSeverity::Note);
  note << message;
  location.getContext()->getDiagEngine().emit(std::move(note));
}

void Importer::setScope(Operation *op) {
  if (currentScope)
    op->setAttr(nn::kScopeAttr, StringAttr::get(context, *currentScope));
}

llvm::Expected<DenseElementsAttr> Importer::readConstant(const TensorProto &tensor) {
  return model.read(context, tensor, kConstantLimit);
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

FailureOr<Value> Importer::resolvePlain(const NodeProto &node, int operand, Scope &scope) {
  const std::string &name = node.input(operand);
  if (scope.isIn(root)) {
    if (auto merged = parameters.readsOfMerged.find({&node, operand});
        merged != parameters.readsOfMerged.end() && !merging)
      return mergedValue(merged->second, name, scope);
    const auto &uses = merging ? merging->uses : parameters.uses;
    auto use = uses.find({&node, operand});
    if (use != uses.end() && stateValues[use->second.parameter]) {
      Value value = stateValues[use->second.parameter];
      if (use->second.expression >= 0) {
        auto type = model.type(context, *initializers.lookup(name));
        if (!type) {
          error("initializer '" + displayName(name) + "': " + llvm::toString(type.takeError()));
          return failure();
        }
        return restoredValue(node, parameters.expressions[use->second.expression], {value},
                             use->second.others, *type);
      }
      if (!use->second.transposed)
        return value;
      return transposed(builder, locationOf(node), value);
    }
  }
  if (const Binding *binding = scope.find(name))
    return binding->value; // null for a sequence
  auto initializer = scope.isIn(root) ? initializers.find(name) : initializers.end();
  if (initializer == initializers.end()) {
    error("operand " + Twine(operand) + " ('" + displayName(name) +
          "') is not defined before it is used");
    return failure();
  }
  if (Value parameter = scope.outer ? parameterIn(*initializer->second, node) : Value())
    return parameter;
  // `initialization_binding` of a training file replaces the stored value.
  DenseElementsAttr values = training ? training->initial.lookup(name) : DenseElementsAttr();
  if (!values) {
    auto data = model.read(context, *initializer->second, kConstantLimit);
    if (!data) {
      error("initializer '" + displayName(name) + "': " + llvm::toString(data.takeError()));
      return failure();
    }
    values = *data;
  }
  Binding binding;
  binding.value = nn::ConstantOp::create(builder, locationOf(node), values);
  binding.narrow =
      narrowInteger(initializer->second->data_type()) ? initializer->second->data_type() : 0;
  scope.values[name] = binding;
  return binding.value;
}

/// Returns the operand, after the operations that the exporter removed.
FailureOr<Value> Importer::resolve(const NodeProto &node, int operand, Scope &scope) {
  FailureOr<Value> value = resolvePlain(node, operand, scope);
  auto removed = parameters.restored.find({&node, operand});
  if (mlir::failed(value) || !*value || removed == parameters.restored.end() || !scope.isIn(root))
    return value;
  auto type = dyn_cast<RankedTensorType>((*value).getType());
  if (!type || !isa<FloatType>(type.getElementType()))
    return value;
  const auto &[expression, others] = removed->second;
  return restoredValue(node, expression, {*value}, others, type);
}

/// Computes an expression of values and of parameters that the exporter folded or removed.
FailureOr<Value> Importer::restoredValue(const NodeProto &node, const Expression &expression,
                                         SmallVector<Value> inputs, ArrayRef<size_t> others,
                                         RankedTensorType type) {
  Operation *before = body->empty() ? nullptr : &body->back();
  for (size_t index : others)
    inputs.push_back(stateValues[index]);
  bool isKnown = llvm::all_of(inputs, [](Value value) { return bool(value); });
  Value result =
      isKnown ? buildExpression(builder, locationOf(node), expression, inputs, type) : Value();
  if (!result) {
    error("the computation that the export folded into operand '" + displayName(node.name()) +
          "' does not fit it: export with torch.onnx.export(..., optimize=False)");
    return failure();
  }
  for (Operation *op = before ? before->getNextNode() : &body->front(); op; op = op->getNextNode())
    setScope(op);
  return result;
}

FailureOr<Value> Importer::mergedValue(size_t number, StringRef name, Scope &scope) {
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
    if (mlir::succeeded(result))
      result = importNode(*node, scope, 0);
  merging = nullptr;
  if (mlir::failed(result))
    return failure();
  for (auto &entry : before) {
    mergedValues[number][entry.first()] = scope.values.lookup(entry.first()).value;
    scope.values[entry.first()] = entry.second;
  }
  return mergedValues[number].lookup(name);
}

/// Returns a module's scope without the prefix that all parameters share.
std::string Importer::scopeName(StringRef module) {
  module.consume_front(parameters.prefix);
  if (parameters.prefix == (module + ".").str())
    module = "";
  return displayName(module);
}

LogicalResult Importer::countWork(int64_t nodes) {
  nodeCount += nodes;
  if (nodeCount > kMaxNodes)
    return error("with its functions and loops unrolled, the graph has more than " +
                 Twine(kMaxNodes) + " nodes: use fewer iterations"),
           failure();
  return success();
}

/// Returns the scope of a node of the graph; none if it is not known.
std::optional<std::string> Importer::findScope(const NodeProto &node) {
  if (scopesAreLost) {
    for (int i = 0; i < node.input_size(); ++i)
      if (auto use = parameters.uses.find({&node, i}); use != parameters.uses.end())
        lastScope = displayName(moduleOf(parameters.list[use->second.parameter].name));
    return lastScope;
  }
  std::optional<std::string> module = merging ? std::optional(merging->module) : readScope(node);
  return module ? std::optional(scopeName(*module)) : std::nullopt;
}

LogicalResult Importer::importNode(const NodeProto &proto, Scope &scope, int depth) {
  if (mlir::failed(countWork(1)))
    return failure();
  const NodeProto *outerCurrent = current;
  std::string outerNode = currentNode;
  std::optional<std::string> outerScope = currentScope;
  current = &proto;
  std::string shown =
      displayName(proto.name().empty() && proto.output_size() ? proto.output(0) : proto.name());
  currentNode = scope.path + "node '" + shown + "' (" + displayName(proto.op_type()) + ")";
  if (depth == 0) {
    currentScope = findScope(proto);
    for (const auto &[module, name] : readClasses(proto))
      if (std::string scope = scopeName(module); !scope.empty())
        classes.try_emplace(scope, name);
  }
  Node node(*this, proto, scope, scope.opsetOf(proto));
  node.depth = depth;
  for (int i = 0; i < proto.input_size(); ++i) {
    node.in.push_back({});
    if (proto.input(i).empty() || scope.absent.contains(proto.input(i)))
      continue;
    FailureOr<Value> value = resolve(proto, i, scope);
    if (mlir::failed(value))
      return failure();
    node.in.back() = *value;
    const Binding *binding = scope.find(proto.input(i));
    node.narrowTypes.resize(i + 1);
    node.narrowTypes[i] = binding ? binding->narrow : 0;
  }
  const auto &lostBias = merging ? merging->lostBias : parameters.lostBias;
  auto lost = depth == 0 ? lostBias.find(&proto) : lostBias.end();
  Value bias = lost == lostBias.end() ? Value() : stateValues[lost->second];
  if (bias && (proto.op_type() == "LayerNormalization" || proto.op_type() == "Conv")) {
    node.in.resize(3);
    node.in[2] = bias;
    bias = {};
  }
  Handler handler = getHandlers().find(domainOf(proto.domain()), proto.op_type(), node.version);
  if (const FunctionProto *function = findFunction(proto)) {
    if (mlir::failed(callFunction(*function, node, depth)))
      return failure();
  } else if (!handler) {
    return error("operator is not supported"), failure();
  } else if (mlir::failed(handler(node)) || node.hasFailed()) {
    return failed ? failure() : node.error("cannot be imported");
  } else if (mlir::failed(node.requireAllRead()) || mlir::failed(finishNarrow(node))) {
    return failure();
  }
  if (bias) {
    Binding &result = scope.values[proto.output(0)];
    Value sum = node.add(result.value, bias);
    if (!sum)
      return node.error("its restored bias does not fit");
    result.value = sum;
  }
  current = outerCurrent;
  currentNode = outerNode;
  currentScope = outerScope;
  return success();
}

bool Importer::isRead(StringRef name) {
  const GraphProto &graph = model.proto().graph();
  if (namesRead.empty()) {
    for (const ValueInfoProto &output : graph.output())
      namesRead.insert(output.name());
    for (const NodeProto &node : graph.node())
      forEachNameRead(node, [&](StringRef read) { namesRead.insert(read); });
  }
  return namesRead.contains(name);
}

LogicalResult Importer::finishNarrow(Node &node) {
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

LogicalResult Importer::callFunction(const FunctionProto &function, Node &node, int depth) {
  if (depth >= kMaxCallDepth)
    return error("functions call each other more than " + Twine(kMaxCallDepth) + " deep: is '" +
                 displayName(function.name()) + "' recursive?"),
           failure();
  Scope inner = functionScope(function, node.scope);
  inner.path = node.scope.path + "in function '" + displayName(function.name()) + "', ";
  if (node.numInputs() > function.input_size())
    return node.error("function '" + displayName(function.name()) + "' has " +
                      Twine(function.input_size()) + " inputs, not " + Twine(node.numInputs()));
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
  for (const std::string &name : function.attribute())
    inner.attributes[name] = nullptr;
  for (const AttributeProto &attribute : function.attribute_proto())
    inner.attributes[attribute.name()] = &attribute;
  for (const AttributeProto &attribute : node.proto.attribute()) {
    if (!inner.attributes.contains(attribute.name()))
      return node.error("function '" + displayName(function.name()) + "' has no attribute '" +
                        displayName(attribute.name()) + "'");
    inner.attributes[attribute.name()] =
        attribute.ref_attr_name().empty() ? &attribute
                                          : node.scope.attributes.lookup(attribute.ref_attr_name());
  }
  for (const NodeProto &called : function.node())
    if (mlir::failed(importNode(called, inner, depth + 1)))
      return failure();
  for (int i = 0; i < node.numOutputs(); ++i) {
    if (!node.wants(i))
      continue;
    auto it =
        i < function.output_size() ? inner.values.find(function.output(i)) : inner.values.end();
    if (it == inner.values.end())
      return node.error("function '" + displayName(function.name()) +
                        "' does not define its output " + Twine(i));
    node.scope.values[node.proto.output(i)] = it->second;
  }
  return success();
}

LogicalResult Importer::importNodes() {
  for (const NodeProto &node : model.proto().graph().node())
    if (needed.contains(&node) && mlir::failed(importNode(node, root, 0)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// The whole import
//===----------------------------------------------------------------------===//

LogicalResult Importer::finish() {
  Value loss;
  LossParts parts;
  SmallVector<Value> returned(3);
  if (mlir::failed(makeLoss(loss, parts)) || mlir::failed(readGradients(returned)) ||
      mlir::failed(bindInputs()) || mlir::failed(chooseBatch()))
    return failure();
  freezeUnreached(loss);
  returned[0] = loss, returned[1] = parts.sum, returned[2] = parts.count;
  func::ReturnOp::create(builder, fileLocation(), returned);
  eraseDeadOps(*body);
  if (mlir::failed(checkChangedBuffers()))
    return failure();

  SmallVector<DictionaryAttr> arguments, results;
  auto role = [&](nn::Role role) { return nn::RoleAttr::get(context, role); };
  for (const Input &input : inputs) {
    SmallVector<NamedAttribute> attrs;
    attrs.push_back(builder.getNamedAttr(
        nn::kRoleAttr,
        role(input.role.value_or(input.isLabel ? nn::Role::Label : nn::Role::Input))));
    attrs.push_back(
        builder.getNamedAttr(nn::kNameAttr, builder.getStringAttr(displayName(input.name))));
    if (!input.binding.empty())
      attrs.push_back(builder.getNamedAttr(nn::kBindingAttr, builder.getStringAttr(input.binding)));
    if (input.batchDim)
      attrs.push_back(
          builder.getNamedAttr(nn::kBatchDimAttr, builder.getI64IntegerAttr(*input.batchDim)));
    arguments.push_back(builder.getDictionaryAttr(attrs));
  }
  for (size_t index : stateOrder)
    arguments.push_back(builder.getDictionaryAttr(builder.getNamedAttr(
        nn::kStateAttr,
        FlatSymbolRefAttr::get(context, displayName(parameters.list[index].name)))));
  for (StringRef name : {"loss", "loss_sum", "count"})
    results.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr(nn::kRoleAttr, role(nn::Role::Metric)),
         builder.getNamedAttr(nn::kNameAttr, builder.getStringAttr(name))}));
  for (const auto &[index, output] : gradients) {
    std::string name = displayName(parameters.list[index].name);
    results.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr(nn::kGradientOfAttr, FlatSymbolRefAttr::get(context, name)),
         builder.getNamedAttr(nn::kNameAttr, builder.getStringAttr("grad." + name))}));
  }
  auto type = builder.getFunctionType(body->getArgumentTypes(), ValueRange(returned).getTypes());
  OpBuilder end(context);
  end.setInsertionPointToEnd(module->getBody());
  auto function = func::FuncOp::create(end, fileLocation(), "forward", type);
  function.getBody().push_back(body);
  body = nullptr;
  function.setAllArgAttrs(arguments);
  function.setAllResultAttrs(results);
  SmallString<256> path(model.path());
  (void)llvm::sys::fs::make_absolute(path);
  (*module)->setAttr("nn.model", builder.getStringAttr(path));
  // Maps the graph's outputs to the nodes that compute them; reports use these names.
  llvm::StringSet<> outputNames;
  std::map<std::string, std::string> makers;
  for (const ValueInfoProto &output : model.proto().graph().output())
    outputNames.insert(output.name());
  for (const NodeProto &node : model.proto().graph().node())
    for (const std::string &name : node.output())
      if (!name.empty() && outputNames.contains(name))
        makers[displayName(name)] = displayName(node.name());
  SmallVector<NamedAttribute> outputs;
  for (const auto &[name, node] : makers)
    outputs.push_back(builder.getNamedAttr(name, builder.getStringAttr(node)));
  (*module)->setAttr("nn.outputs", builder.getDictionaryAttr(outputs));
  SmallVector<NamedAttribute> sizes;
  for (const Input &input : inputs)
    if (!input.sizes.empty())
      sizes.push_back(
          builder.getNamedAttr(displayName(input.name), builder.getStringAttr(input.sizes)));
  if (!sizes.empty())
    (*module)->setAttr("nn.sizes", builder.getDictionaryAttr(sizes));
  SmallVector<NamedAttribute> classList;
  for (auto &entry : classes)
    classList.push_back(
        builder.getNamedAttr(entry.first(), builder.getStringAttr(displayName(entry.second))));
  if (!classList.empty())
    (*module)->setAttr(nn::kClassesAttr, builder.getDictionaryAttr(classList));
  if (training)
    setOptimizer();
  if (!bindingNote.empty())
    (*module)->setAttr("nn.loss", builder.getStringAttr(bindingNote));
  return success();
}

OwningOpRef<ModuleOp> Importer::run() {
  module = ModuleOp::create(fileLocation());
  auto owned = std::make_unique<Block>();
  body = owned.get();
  builder.setInsertionPointToEnd(body);
  if (mlir::failed(checkModel()) || mlir::failed(readTraining()) || mlir::failed(findNeeded()) ||
      mlir::failed(findLostDropout()) || mlir::failed(checkSupported()) ||
      mlir::failed(declareInputs()) || mlir::failed(declareStates()) ||
      mlir::failed(matchGradients()) || mlir::failed(importNodes()) ||
      (gradients.empty() && mlir::failed(checkStops())) || mlir::failed(finish())) {
    body->dropAllDefinedValueUses();
    return {};
  }
  (void)owned.release(); // owned by the function now
  return std::move(module);
}

OwningOpRef<ModuleOp> onnx::importOnnx(StringRef path, const ImportOptions &options,
                                       MLIRContext *context, int *exitCode) {
  context->loadDialect<nn::NNDialect, func::FuncDialect>();
  context->loadAllAvailableDialects(); // plug-ins' handlers create ops of plug-ins' dialects
  Model::Failure failure;
  Artifacts artifacts;
  bool isFolder = llvm::sys::fs::is_directory(path);
  std::unique_ptr<Model> model =
      isFolder ? openArtifacts(path, artifacts, failure) : Model::open(path, failure);
  if (!model) {
    if (exitCode)
      *exitCode = failure.exitCode;
    emitError(FileLineColLoc::get(context, path, 0, 0)) << failure.message;
    return {};
  }
  Importer importer(*model, options, context, isFolder ? &artifacts : nullptr);
  OwningOpRef<ModuleOp> module = importer.run();
  if (!module) {
    if (exitCode)
      *exitCode = importer.getExitCode();
    return {};
  }
  widen16BitFloats(*module);
  if (mlir::failed(mlir::verify(module->getOperation()))) {
    if (exitCode)
      *exitCode = SHALE_EXIT_INTERNAL;
    return {};
  }
  return module;
}
