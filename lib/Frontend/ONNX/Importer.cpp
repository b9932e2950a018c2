//===- Importer.cpp - From an ONNX file to the nn dialect -----------------===//
//
// Walks the nodes that the loss depends on, in the file's order. Shapes are
// static, so whatever depends on shapes only is a constant and is computed on
// the way by the interpreter.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Importer.h"
#include "include/shale/Runtime.h"
#include "lib/Frontend/ONNX/Signature.h"
#include "lib/Interpreter/Interpreter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

// A tensor that is no parameter and has at most this many bytes is a constant.
static constexpr int64_t kConstantLimit = int64_t(16) << 20;
// All folded values together, as a multiple of what one may have.
static constexpr int64_t kTotalFactor = 16;
static constexpr int64_t kMaxNodes = 1000000;
static constexpr int kMaxCallDepth = 100;

Handler HandlerRegistry::find(StringRef domain, StringRef type, int64_t version) const {
  auto it = table.find((domain + "::" + type).str());
  if (it == table.end())
    return nullptr;
  auto newest = it->second.upper_bound(version);
  return newest == it->second.begin() ? nullptr : std::prev(newest)->second;
}

/// "ai.onnx" is another name of the standard operators' domain.
static StringRef domainOf(StringRef domain) { return domain == "ai.onnx" ? "" : domain; }

Importer::Importer(Model &model, const ImportOptions &options, MLIRContext *context)
    : builder(context), model(model), options(options), context(context) {}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

Location Importer::fileLocation() {
  return FileLineColLoc::get(context, model.path(), 0, 0);
}

Location Importer::locationOf(const NodeProto &node) {
  StringRef name = node.name();
  if (name.empty() && node.output_size() > 0)
    name = node.output(0);
  return NameLoc::get(StringAttr::get(context, displayName(name)), fileLocation());
}

InFlightDiagnostic Importer::error(const Twine &message, int code) {
  exitCode = code;
  failed = true;
  if (!current)
    return emitError(fileLocation()) << model.path() << ": " << message;
  return emitError(locationOf(*current))
         << model.path() << ": " << currentNode << ": " << message;
}

void Importer::setScope(Operation *op) {
  if (!currentScope.empty())
    op->setAttr(nn::kScopeAttr, StringAttr::get(context, currentScope));
}

//===----------------------------------------------------------------------===//
// Folding
//===----------------------------------------------------------------------===//

/// Whether a value can be computed now: a constant, or an op that is kept as it
/// is (broadcast, iota) but whose operands can.
static bool isKnown(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isa<nn::ConstantOp, nn::IotaOp>(op))
    return true;
  auto broadcast = dyn_cast<nn::BroadcastOp>(op);
  return broadcast && isKnown(broadcast.getInput());
}

DenseElementsAttr Importer::constantOf(Value value) {
  if (!value || !isKnown(value))
    return {};
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast<nn::ConstantOp>(op))
    return dyn_cast<DenseElementsAttr>(constant.getValue());
  auto it = computed.find(op);
  if (it != computed.end())
    return it->second;
  if (nn::tensorBytes(cast<RankedTensorType>(value.getType())) > options.foldLimit)
    return {};
  SmallVector<ElementsAttr> operands;
  for (Value operand : op->getOperands()) {
    DenseElementsAttr attr = constantOf(operand);
    if (!attr)
      return {};
    operands.push_back(attr);
  }
  auto results = interp::interpretConstant(op, operands, int64_t(1) << 40);
  if (mlir::failed(results))
    return {};
  foldedBytes += nn::tensorBytes(cast<RankedTensorType>(value.getType()));
  return computed[op] = results->front();
}

FailureOr<Value> Importer::fold(Operation *op) {
  Value value = op->getResult(0);
  if (isa<nn::ConstantOp, nn::IotaOp>(op) || op->getNumOperands() == 0 ||
      !llvm::all_of(op->getOperands(), isKnown))
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  if (isa<nn::BroadcastOp>(op)) {
    DenseElementsAttr attr = constantOf(op->getOperand(0));
    if (!attr || !attr.isSplat())
      return value;
    Value splat = nn::ConstantOp::create(
        builder, op->getLoc(), DenseElementsAttr::get(type, attr.getSplatValue<Attribute>()));
    op->erase();
    return splat;
  }
  int64_t largest = 0, total = foldedBytes;
  for (Type result : op->getResultTypes())
    largest = std::max(largest, nn::tensorBytes(cast<RankedTensorType>(result)));
  for (Value operand : op->getOperands())
    largest = std::max(largest, nn::tensorBytes(cast<RankedTensorType>(operand.getType())));
  if (largest > options.foldLimit || (total += largest) > options.foldLimit * kTotalFactor) {
    error("what it computes from shapes and constants takes " +
          Twine(std::max(largest, total) >> 20) + " MiB, more than the " +
          Twine(options.foldLimit >> 20) + " MiB a folded value may have (" +
          Twine(options.foldLimit * kTotalFactor >> 20) +
          " MiB all together): use smaller dimensions (--dim)");
    return failure();
  }
  SmallVector<ElementsAttr> operands;
  for (Value operand : op->getOperands()) {
    DenseElementsAttr attr = constantOf(operand);
    if (!attr)
      return value;
    operands.push_back(attr);
  }
  auto results = interp::interpretConstant(op, operands, int64_t(1) << 40);
  if (mlir::failed(results) || results->size() != 1)
    return value;
  foldedBytes = total;
  Value constant = nn::ConstantOp::create(builder, op->getLoc(), results->front());
  op->erase();
  return constant;
}

llvm::Expected<DenseElementsAttr> Importer::readConstant(const TensorProto &tensor) {
  return model.read(context, tensor, kConstantLimit);
}

//===----------------------------------------------------------------------===//
// Before the nodes
//===----------------------------------------------------------------------===//

LogicalResult Importer::checkModel() {
  const ModelProto &proto = model.proto();
  if (!proto.has_ir_version() || proto.ir_version() < 3)
    return error("no ir_version, or one before 3: export the model again"), failure();
  for (const OperatorSetIdProto &opset : proto.opset_import()) {
    StringRef domain = domainOf(opset.domain());
    if (opset.version() < 1 || opset.version() > INT32_MAX)
      return error("operator set '" + displayName(domain) + "' has version " + Twine(opset.version())), failure();
    // Of two imports of one domain the higher one holds (ONNX, docs/IR.md).
    int64_t &version = root.opsets[domain];
    version = std::max(version, opset.version());
  }
  if (!root.opsets.count(""))
    return error("the file imports no operator set of the standard domain (opset_import)"), failure();
  if (root.opsets[""] < 11)
    return error("operator set " + Twine(root.opsets[""]) + " is older than 11: export with opset 18 or later"), failure();
  if (root.opsets[""] > 28)
    return error("operator set " + Twine(root.opsets[""]) + " is newer than 28, the newest that Shale knows: export with opset 23"), failure();
  if (proto.training_info_size() > 0)
    return error("the file brings its own training steps (training_info), which Shale does not read yet: export the forward pass"), failure();
  const GraphProto &graph = proto.graph();
  if (graph.sparse_initializer_size() > 0)
    return error("sparse initializers are not supported"), failure();
  for (const TensorProto &tensor : graph.initializer()) {
    if (tensor.name().empty())
      return error("an initializer has no name"), failure();
    if (!initializers.try_emplace(tensor.name(), &tensor).second)
      return error("initializer '" + displayName(tensor.name()) + "' is there twice"), failure();
  }
  for (const FunctionProto &function : proto.functions())
    if (!functions.try_emplace((domainOf(function.domain()) + "::" + function.name() + "::" + function.overload()).str(), &function).second)
      return error("function '" + displayName(function.name()) + "' is there twice"), failure();
  return success();
}

/// Which graph values the loss is made of.
LogicalResult Importer::chooseLoss() {
  const GraphProto &graph = model.proto().graph();
  std::string outputs;
  for (const ValueInfoProto &output : graph.output())
    outputs += (outputs.empty() ? "'" : ", '") + displayName(output.name()) + "'";
  auto hasOutput = [&](StringRef name) {
    if (llvm::any_of(graph.output(), [&](auto &output) { return output.name() == name; }))
      return true;
    return llvm::any_of(graph.node(), [&](auto &node) { return llvm::is_contained(node.output(), name); });
  };
  if (!options.loss.empty()) {
    auto [kind, rest] = StringRef(options.loss).split(':');
    auto [first, second] = rest.split(',');
    bool two = kind == "cross-entropy" || kind == "mse";
    if ((kind != "next-token" && !two) || first.empty() || (two && second.empty()) || (!two && rest.contains(',')))
      return error("--loss '" + displayName(options.loss) + "' is not one of next-token:LOGITS, cross-entropy:LOGITS,LABELS, mse:OUT,TARGET", SHALE_EXIT_USAGE), failure();
    if (!hasOutput(first))
      return error("--loss: '" + displayName(first) + "' is no output of the graph; outputs are " + outputs, SHALE_EXIT_USAGE), failure();
    lossKind = kind.str();
    logitsName = first.str();
    labelsName = second.str();
    return success();
  }
  if (!options.lossOutput.empty()) {
    if (!hasOutput(options.lossOutput))
      return error("--loss-output: '" + displayName(options.lossOutput) + "' is no output of the graph; outputs are " + outputs, SHALE_EXIT_USAGE), failure();
    lossName = options.lossOutput;
    return success();
  }
  SmallVector<StringRef> scalars;
  for (const ValueInfoProto &output : graph.output()) {
    const TypeProto::Tensor &type = output.type().tensor_type();
    int32_t element = type.elem_type();
    if (type.has_shape() && type.shape().dim_size() == 0 && (element == 1 || element == 10 || element == 11 || element == 16))
      scalars.push_back(output.name());
  }
  if (scalars.size() > 1 && llvm::is_contained(scalars, "loss"))
    scalars = {"loss"};
  if (scalars.size() > 1)
    return error("the graph has several scalar outputs (" + outputs + "): say which one is the loss with --loss-output NAME", SHALE_EXIT_USAGE), failure();
  if (scalars.empty())
    return error("the graph has no scalar output that could be the loss; outputs are " + (outputs.empty() ? "none" : outputs) + ": pass --loss next-token:LOGITS, cross-entropy:LOGITS,LABELS or mse:OUT,TARGET", SHALE_EXIT_USAGE), failure();
  lossName = scalars.front().str();
  return success();
}

/// The nodes that the loss depends on; names are defined once and before use.
LogicalResult Importer::findNeeded() {
  const GraphProto &graph = model.proto().graph();
  if (graph.node_size() > kMaxNodes)
    return error("more than " + Twine(kMaxNodes) + " nodes"), failure();
  llvm::StringMap<const NodeProto *> producer;
  for (const NodeProto &node : graph.node())
    for (const std::string &name : node.output()) {
      if (name.empty())
        continue;
      current = &node;
      currentNode = "node '" + displayName(node.name()) + "' (" + displayName(node.op_type()) + ")";
      if (!producer.try_emplace(name, &node).second || initializers.count(name))
        return error("value '" + displayName(name) + "' is defined twice"), failure();
    }
  current = nullptr;
  SmallVector<StringRef> work;
  for (const std::string *name : {&lossName, &logitsName, &labelsName})
    if (!name->empty())
      work.push_back(*name);
  while (!work.empty()) {
    auto it = producer.find(work.pop_back_val());
    if (it == producer.end() || !needed.insert(it->second).second)
      continue;
    for (const std::string &name : it->second->input())
      if (!name.empty())
        work.push_back(name);
    // Subgraphs read names of the outer graph.
    for (const AttributeProto &attribute : it->second->attribute())
      for (const NodeProto &inner : attribute.g().node())
        for (const std::string &name : inner.input())
          work.push_back(name);
  }
  return success();
}

const FunctionProto *Importer::findFunction(const NodeProto &node) const {
  auto it = functions.find((domainOf(node.domain()) + "::" + node.op_type() + "::" + node.overload()).str());
  return it == functions.end() ? nullptr : it->second;
}

int64_t Importer::opsetOf(const NodeProto &node, const Scope &scope) const {
  auto it = scope.opsets.find(domainOf(node.domain()));
  return it == scope.opsets.end() ? 0 : it->second;
}

static Scope functionScope(const FunctionProto &function, const Scope &caller) {
  Scope scope;
  for (const OperatorSetIdProto &opset : function.opset_import())
    scope.opsets[domainOf(opset.domain())] = opset.version();
  if (scope.opsets.empty())
    scope.opsets = caller.opsets;
  return scope;
}

void Importer::collectUnsupported(const NodeProto &node, const Scope &scope, int depth) {
  int64_t version = opsetOf(node, scope);
  if (const FunctionProto *function = findFunction(node)) {
    // Recursion is reported when the call is followed.
    if (depth < kMaxCallDepth && visitedFunctions.insert((Twine(function->domain()) + "::" + function->name() + "::" + function->overload()).str()).second) {
      Scope inner = functionScope(*function, scope);
      for (const NodeProto &called : function->node())
        collectUnsupported(called, inner, depth + 1);
    }
    return;
  }
  if (getHandlers().find(domainOf(node.domain()), node.op_type(), version))
    return;
  std::string domain = node.domain().empty() ? "ai.onnx" : displayName(node.domain());
  std::string key = domain + " " + displayName(node.op_type()) + (version ? ", opset " + std::to_string(version) : ", domain not imported");
  Unsupported &entry = unsupported[key];
  if (entry.count++ == 0)
    entry.node = displayName(node.name().empty() && node.output_size() ? node.output(0) : node.name());
}

LogicalResult Importer::checkSupported() {
  for (const NodeProto &node : model.proto().graph().node())
    if (needed.contains(&node))
      collectUnsupported(node, root, 0);
  if (unsupported.empty())
    return success();
  std::string text;
  for (auto &[key, entry] : unsupported)
    text += "\n  " + key + ": " + std::to_string(entry.count) + (entry.count == 1 ? " node" : " nodes") + ", first '" + entry.node + "'";
  return error(Twine(unsupported.size()) + (unsupported.size() == 1 ? " operator is" : " operators are") + " not supported:" + text), failure();
}

FailureOr<int64_t> Importer::addInput(StringRef name, RankedTensorType type, std::optional<int64_t> batchDim) {
  int64_t index = inputs.size();
  inputs.push_back({name.str(), type, batchDim});
  Location loc = NameLoc::get(StringAttr::get(context, displayName(name)), fileLocation());
  inputs.back().argument = body->insertArgument(unsigned(index), type, loc);
  Binding binding;
  binding.value = inputs.back().argument;
  root.values[name] = binding;
  return index;
}

LogicalResult Importer::declareInputs() {
  const GraphProto &graph = model.proto().graph();
  llvm::StringSet<> read, dimsUsed;
  for (const NodeProto *node : needed) {
    for (const std::string &name : node->input())
      read.insert(name);
    for (const AttributeProto &attribute : node->attribute())
      for (const NodeProto &inner : attribute.g().node())
        for (const std::string &name : inner.input())
          read.insert(name);
  }
  for (StringRef name : {StringRef(lossName), StringRef(logitsName), StringRef(labelsName)})
    read.insert(name);
  std::string missing;
  for (const ValueInfoProto &input : graph.input()) {
    if (initializers.count(input.name()))
      continue;
    std::string shown = displayName(input.name());
    if (input.name().empty() || root.values.count(input.name()))
      return error("input '" + shown + "' is there twice, or has no name"), failure();
    const TypeProto::Tensor &tensor = input.type().tensor_type();
    for (const TensorShapeProto::Dimension &dim : tensor.shape().dim())
      if (!dim.dim_param().empty())
        dimsUsed.insert(dim.dim_param());
    if (!read.contains(input.name())) {
      emitRemark(fileLocation()) << model.path() << ": input '" << shown << "' is left out: the loss does not depend on it";
      continue;
    }
    if (!input.type().has_tensor_type() || !tensor.has_shape())
      return error("input '" + shown + "' is no tensor of known rank"), failure();
    std::string why;
    Type element = elementType(context, tensor.elem_type(), why);
    if (!element)
      return error("input '" + shown + "': " + why), failure();
    SmallVector<int64_t> shape;
    std::optional<int64_t> batchDim;
    for (const TensorShapeProto::Dimension &dim : tensor.shape().dim()) {
      if (dim.has_dim_value() && dim.dim_value() > 0) {
        shape.push_back(dim.dim_value());
        continue;
      }
      if (dim.has_dim_value() && dim.dim_value() < 0)
        return error("input '" + shown + "' has a negative dimension"), failure();
      auto it = options.dims.find(dim.dim_param());
      if (dim.dim_param().empty())
        return error("input '" + shown + "' has a dimension without size and name: export it with a name (dynamic_shapes)"), failure();
      if (dim.dim_param() == "batch" && !batchDim)
        batchDim = shape.size();
      if (it == options.dims.end()) {
        std::string flag = " --dim " + displayName(dim.dim_param()) + "=SIZE";
        if (!StringRef(missing).contains(flag))
          missing += flag;
        shape.push_back(1);
        continue;
      }
      shape.push_back(it->second);
    }
    auto batch = options.batchDims.find(input.name());
    if (batch != options.batchDims.end()) {
      if (batch->second < 0 || batch->second >= int64_t(shape.size()))
        return error("--batch-dim: input '" + shown + "' has " + Twine(shape.size()) + " dimensions", SHALE_EXIT_USAGE), failure();
      batchDim = batch->second;
    }
    auto type = RankedTensorType::get(shape, element);
    if (nn::tensorBytes(type) < 0)
      return error("the size of input '" + shown + "' overflows 64 bits"), failure();
    if (mlir::failed(addInput(input.name(), type, batchDim)))
      return failure();
  }
  if (!missing.empty())
    return error("sizes of dimensions are missing: pass" + missing, SHALE_EXIT_USAGE), failure();
  for (auto &dim : options.dims)
    if (!dimsUsed.contains(dim.getKey())) {
      std::string known;
      for (auto &entry : dimsUsed)
        known += (known.empty() ? "" : ", ") + displayName(entry.getKey());
      return error("--dim: no input has a dimension '" + displayName(dim.getKey()) + "'; there are " + (known.empty() ? "none" : known), SHALE_EXIT_USAGE), failure();
    }
  for (auto &batch : options.batchDims)
    if (!root.values.count(batch.getKey()))
      return error("--batch-dim: no input '" + displayName(batch.getKey()) + "'", SHALE_EXIT_USAGE), failure();
  return success();
}

LogicalResult Importer::declareStates() {
  parameters = findParameters(model, options.keepPrefix);
  OpBuilder states(context);
  states.setInsertionPointToEnd(module->getBody());
  llvm::StringSet<> names;
  stateValues.resize(parameters.list.size());
  for (auto [index, parameter] : llvm::enumerate(parameters.list)) {
    if (!parameter.used)
      continue;
    std::string shown = displayName(parameter.name);
    RankedTensorType type;
    Attribute init;
    if (parameter.initializer) {
      auto declared = model.type(context, *parameter.initializer);
      if (!declared)
        return error("parameter '" + shown + "': " + llvm::toString(declared.takeError())), failure();
      type = *declared;
      if (!parameter.isParameter && nn::tensorBytes(type) <= kConstantLimit)
        continue; // a constant where it is read
      auto place = model.place(*parameter.initializer, type);
      if (!place)
        return error("initializer '" + displayName(parameter.initializer->name()) + "' of parameter '" + shown + "': " + llvm::toString(place.takeError())), failure();
      if (parameter.transposed)
        type = RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType());
      if (place->path.empty()) {
        // Stored as a list of numbers: taken only if it says nothing else than one number.
        auto data = model.read(context, *parameter.initializer, kConstantLimit);
        if (!data)
          return error("parameter '" + shown + "': " + llvm::toString(data.takeError())), failure();
        std::optional<double> fill;
        if (data->getNumElements() == 1 || data->isSplat())
          fill = (*data->getValues<APFloat>().begin()).convertToFloat();
        if (!fill)
          return error("initializer '" + shown + "' is stored as a list of numbers, not as bytes: save the model again with raw data"), failure();
        init = nn::FillAttr::get(context, builder.getF64FloatAttr(*fill));
      } else {
        SmallString<256> path(place->path);
        (void)llvm::sys::fs::make_absolute(path);
        init = nn::FileAttr::get(context, path, place->offset, place->length, parameter.transposed);
      }
    } else {
      std::string why;
      Type element = elementType(context, parameter.dataType, why);
      type = RankedTensorType::get(parameter.shape, element);
      init = nn::FillAttr::get(context, builder.getF64FloatAttr(0.0));
    }
    if (!names.insert(parameter.name).second)
      return error("two parameters are named '" + shown + "'"), failure();
    auto role = parameter.isParameter ? nn::Role::Param : nn::Role::Buffer;
    ArrayAttr aliases;
    if (!parameter.aliases.empty()) {
      SmallVector<StringRef> list(parameter.aliases.begin(), parameter.aliases.end());
      aliases = builder.getStrArrayAttr(list);
    }
    nn::StateOp::create(states, fileLocation(), builder.getStringAttr(shown), nn::RoleAttr::get(context, role), TypeAttr::get(type), init, aliases, FlatSymbolRefAttr(), StringAttr(), BoolAttr(), FloatAttr());
    stateOrder.push_back(index);
    stateValues[index] = body->addArgument(type, NameLoc::get(builder.getStringAttr(shown), fileLocation()));
  }
  for (const Repair &repair : parameters.repairs)
    emitRemark(repair.node ? locationOf(*repair.node) : fileLocation()) << repair.text;
  return success();
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

FailureOr<Value> Importer::resolve(const NodeProto &node, int operand, Scope &scope) {
  const std::string &name = node.input(operand);
  if (&scope == &root) {
    auto use = parameters.uses.find({&node, operand});
    if (use != parameters.uses.end() && stateValues[use->second.parameter]) {
      Value value = stateValues[use->second.parameter];
      if (!use->second.transposed)
        return value;
      auto type = cast<RankedTensorType>(value.getType());
      auto turned = RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType());
      return Value(nn::TransposeOp::create(builder, locationOf(node), turned, value, ArrayRef<int64_t>{1, 0}));
    }
  }
  auto it = scope.values.find(name);
  if (it != scope.values.end())
    return it->second.value; // null for a sequence
  auto initializer = &scope == &root ? initializers.find(name) : initializers.end();
  if (initializer == initializers.end()) {
    error("operand " + Twine(operand) + " ('" + displayName(name) + "') is not defined before it is used");
    return failure();
  }
  auto data = model.read(context, *initializer->second, kConstantLimit);
  if (!data) {
    error("initializer '" + displayName(name) + "': " + llvm::toString(data.takeError()));
    return failure();
  }
  Binding binding;
  binding.value = nn::ConstantOp::create(builder, locationOf(node), *data);
  scope.values[name] = binding;
  return binding.value;
}

LogicalResult Importer::importNode(const NodeProto &proto, Scope &scope, int depth) {
  if (++nodeCount > kMaxNodes)
    return error("functions expand to more than " + Twine(kMaxNodes) + " nodes"), failure();
  const NodeProto *outerCurrent = current;
  std::string outerNode = currentNode, outerScope = currentScope;
  current = &proto;
  std::string shown = displayName(proto.name().empty() && proto.output_size() ? proto.output(0) : proto.name());
  currentNode = scope.path + "node '" + shown + "' (" + displayName(proto.op_type()) + ")";
  if (depth == 0) {
    StringRef module = readScopeCached(proto);
    module.consume_front(parameters.prefix);
    if (parameters.prefix == (module + ".").str())
      module = "";
    currentScope = displayName(module);
  }
  Node node(*this, proto, scope, opsetOf(proto, scope));
  for (int i = 0; i < proto.input_size(); ++i) {
    node.in.push_back({});
    if (proto.input(i).empty())
      continue;
    FailureOr<Value> value = resolve(proto, i, scope);
    if (mlir::failed(value))
      return failure();
    node.in.back() = *value;
  }
  auto lost = depth == 0 ? parameters.lostBias.find(&proto) : parameters.lostBias.end();
  Value bias = lost == parameters.lostBias.end() ? Value() : stateValues[lost->second];
  if (bias && proto.op_type() == "LayerNormalization") {
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
    return node.error("cannot be imported");
  }
  if (bias) {
    Binding &result = scope.values[proto.output(0)];
    Value sum = node.binary<nn::AddOp>(result.value, bias);
    if (!sum)
      return node.error("its restored bias does not fit");
    result.value = sum;
  }
  current = outerCurrent;
  currentNode = outerNode;
  currentScope = outerScope;
  return success();
}

StringRef Importer::readScopeCached(const NodeProto &proto) {
  scopeText = readScope(proto);
  return scopeText;
}

LogicalResult Importer::callFunction(const FunctionProto &function, Node &node, int depth) {
  if (depth >= kMaxCallDepth)
    return error("functions call each other more than " + Twine(kMaxCallDepth) + " deep: is '" + displayName(function.name()) + "' recursive?"), failure();
  Scope inner = functionScope(function, node.scope);
  inner.path = node.scope.path + "in function '" + displayName(function.name()) + "', ";
  if (node.numInputs() > function.input_size())
    return node.error("function '" + displayName(function.name()) + "' has " + Twine(function.input_size()) + " inputs, not " + Twine(node.numInputs()));
  for (int i = 0; i < node.numInputs(); ++i) {
    if (!node.has(i))
      continue;
    Binding binding;
    if (const Binding *sequence = node.sequence(i))
      binding = *sequence;
    else
      binding.value = node.input(i);
    inner.values[function.input(i)] = binding;
  }
  for (const AttributeProto &attribute : function.attribute_proto())
    inner.attributes[attribute.name()] = &attribute;
  for (const AttributeProto &attribute : node.proto.attribute())
    inner.attributes[attribute.name()] = attribute.ref_attr_name().empty() ? &attribute : node.scope.attributes.lookup(attribute.ref_attr_name());
  for (const NodeProto &called : function.node())
    if (mlir::failed(importNode(called, inner, depth + 1)))
      return failure();
  for (int i = 0; i < node.numOutputs(); ++i) {
    if (!node.wants(i))
      continue;
    auto it = i < function.output_size() ? inner.values.find(function.output(i)) : inner.values.end();
    if (it == inner.values.end())
      return node.error("function '" + displayName(function.name()) + "' does not define its output " + Twine(i));
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
// The whole
//===----------------------------------------------------------------------===//

LogicalResult Importer::finish() {
  Value loss;
  LossParts parts;
  if (mlir::failed(makeLoss(loss, parts)) || mlir::failed(bindInputs(parts)))
    return failure();
  func::ReturnOp::create(builder, fileLocation(), ValueRange{loss, parts.sum, parts.count});
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*body)))
    if (isOpTriviallyDead(&op))
      op.erase();

  SmallVector<DictionaryAttr> arguments, results;
  auto role = [&](nn::Role role) { return nn::RoleAttr::get(context, role); };
  for (const Input &input : inputs) {
    SmallVector<NamedAttribute> attrs;
    attrs.push_back(builder.getNamedAttr(nn::kRoleAttr, role(input.isLabel ? nn::Role::Label : nn::Role::Input)));
    attrs.push_back(builder.getNamedAttr(nn::kNameAttr, builder.getStringAttr(displayName(input.name))));
    if (!input.binding.empty())
      attrs.push_back(builder.getNamedAttr(nn::kBindingAttr, builder.getStringAttr(input.binding)));
    if (input.batchDim)
      attrs.push_back(builder.getNamedAttr(nn::kBatchDimAttr, builder.getI64IntegerAttr(*input.batchDim)));
    arguments.push_back(builder.getDictionaryAttr(attrs));
  }
  for (size_t index : stateOrder)
    arguments.push_back(builder.getDictionaryAttr(builder.getNamedAttr(nn::kStateAttr, FlatSymbolRefAttr::get(context, displayName(parameters.list[index].name)))));
  for (StringRef name : {"loss", "loss_sum", "count"})
    results.push_back(builder.getDictionaryAttr({builder.getNamedAttr(nn::kRoleAttr, role(nn::Role::Metric)), builder.getNamedAttr(nn::kNameAttr, builder.getStringAttr(name))}));
  auto type = builder.getFunctionType(body->getArgumentTypes(), TypeRange{loss.getType(), parts.sum.getType(), parts.count.getType()});
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
  if (!bindingNote.empty())
    (*module)->setAttr("nn.loss", builder.getStringAttr(bindingNote));
  return success();
}

OwningOpRef<ModuleOp> Importer::run() {
  module = ModuleOp::create(fileLocation());
  auto owned = std::make_unique<Block>();
  body = owned.get();
  builder.setInsertionPointToEnd(body);
  if (mlir::failed(checkModel()) || mlir::failed(chooseLoss()) || mlir::failed(findNeeded()) ||
      mlir::failed(checkSupported()) || mlir::failed(declareInputs()) || mlir::failed(declareStates()) ||
      mlir::failed(importNodes()) || mlir::failed(finish())) {
    body->dropAllDefinedValueUses();
    return {};
  }
  (void)owned.release(); // the function's now
  return std::move(module);
}

OwningOpRef<ModuleOp> onnx::importOnnx(StringRef path, const ImportOptions &options, MLIRContext *context, int *exitCode) {
  context->loadDialect<nn::NNDialect, func::FuncDialect>();
  Model::Failure failure;
  std::unique_ptr<Model> model = Model::open(path, failure);
  if (!model) {
    if (exitCode)
      *exitCode = failure.exitCode;
    emitError(FileLineColLoc::get(context, path, 0, 0)) << failure.message;
    return {};
  }
  Importer importer(*model, options, context);
  OwningOpRef<ModuleOp> module = importer.run();
  if (!module) {
    if (exitCode)
      *exitCode = importer.getExitCode();
    return {};
  }
  if (mlir::failed(mlir::verify(module->getOperation()))) {
    if (exitCode)
      *exitCode = SHALE_EXIT_INTERNAL;
    return {};
  }
  return module;
}

std::string onnx::parseImportFlag(StringRef flag, StringRef value, ImportOptions &options) {
  bool colon = flag == "batch-dim";
  auto [key, rest] = colon ? value.rsplit(':') : value.rsplit('=');
  if (key.empty() || rest.empty())
    return ("--" + flag + " '" + value + "' must be " + (colon ? "INPUT:DIM" : flag == "dim" ? "NAME=SIZE" : "INPUT=tokens|tokens+1|ones|arange")).str();
  if (flag == "bind") {
    if (rest != "tokens" && rest != "tokens+1" && rest != "ones" && rest != "arange")
      return ("--bind: '" + rest + "' is not one of tokens, tokens+1, ones, arange").str();
    options.bindings[key] = rest.str();
    return "";
  }
  int64_t number;
  if (rest.getAsInteger(10, number) || number < (colon ? 0 : 1) || number > INT32_MAX)
    return ("--" + flag + " '" + value + "': '" + rest + "' is no size").str();
  (colon ? options.batchDims : options.dims)[key] = number;
  return "";
}
